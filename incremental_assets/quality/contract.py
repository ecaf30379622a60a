"""The schema contract: which fields of a payload become which typed columns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from incremental_assets.errors import DefinitionError
from incremental_assets.quality.types import FieldType

COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
RESERVED = frozenset({"dt", "payload"})
MOST_NEW_COLUMNS = 100
PAYLOAD, UNDECLARED, ABSENT = "_payload", "_undeclared", "_absent"
FURTHER, EXPECTED, SHAPE = "_of_further", "_of_expected", "_of_shape"
SHAPE_AT = f"{SHAPE}.at"
MOST_SHAPES, LONGEST_SHAPE = 8, 200
_OTHER_CASE = "_of_other_case"
_JOINED, _BETWEEN_NAMES = "_of_names", "\x1f"
_FIELDS, _VALUES, _TEXT = "_of_fields", "_of_values", "_of_text_"
_MOST_TEXTS_BY_SHAPE = 200
"""So many expressions take longer to plan than they save."""
_NONE = "CAST(array() AS ARRAY<STRING>)"
_ALIKE = 0.8
OnNewColumn = Literal["evolve", "discard", "freeze"]
Shape = tuple[str, ...]
"""The names of the fields of a row, in the order in which a VARIANT has them."""


@dataclass(frozen=True, init=False)
class Contract:
    """The declared columns of a table, and what happens to undeclared fields.

    `evolve`: a new field becomes a new nullable string column, holding the field's JSON text (a
    later value of another type then still fits). `discard`: it stays in bronze alone. `freeze`: a
    day with such a field is held until the contract declares it or the feed is repaired. A mapping
    gives it by field, `"*"` for all others: `Contract({"*": "freeze", "debug": "discard"}, …)`.
    """

    columns: Mapping[str, FieldType]
    on_new_column: Mapping[str, OnNewColumn]

    def __init__(
        self,
        on_new_column: OnNewColumn | Mapping[str, OnNewColumn] = "evolve",
        **columns: FieldType,
    ) -> None:
        for name in columns:
            if not COLUMN.fullmatch(name) or name.lower() in RESERVED:
                raise DefinitionError(
                    f"Contract column {name!r}: use letters, digits and underscores, beginning "
                    f"with a letter, and none of {sorted(RESERVED)}."
                )
        odd = next((n for n, kind in columns.items() if not isinstance(kind, FieldType)), None)
        if odd is not None:
            raise DefinitionError(
                f"Contract column {odd!r} is {columns[odd]!r}; expected a type, such as Text()."
            )
        folded = [name.lower() for name in columns]
        if len(set(folded)) != len(folded):
            raise DefinitionError(f"Contract columns differ only in case: {sorted(columns)}.")
        by_field = (
            {"*": on_new_column}
            if isinstance(on_new_column, str)
            else {"*": "evolve", **on_new_column}
        )
        by_field = {name.lower(): policy for name, policy in by_field.items()}
        unknown = {n: p for n, p in by_field.items() if p not in get_args(OnNewColumn)}
        both = sorted(name for name in columns if name.lower() in by_field)
        if unknown or both:
            what = (
                f"{both} are declared" if both else f"{unknown} is none of {get_args(OnNewColumn)}"
            )
            raise DefinitionError(
                f"Contract: on_new_column is about fields that are not declared: {what}."
            )
        object.__setattr__(self, "columns", MappingProxyType(dict(columns)))
        object.__setattr__(self, "on_new_column", MappingProxyType(by_field))

    def of_new(self, field: str) -> OnNewColumn:
        """What happens to an undeclared field, in whatever case it is written."""
        return self.on_new_column.get(field.lower(), self.on_new_column["*"])

    def without(self, names: Iterable[str]) -> Contract:
        """The contract without some columns: a field of such a name stays in bronze alone."""
        removed = set(names)
        columns = {name: kind for name, kind in self.columns.items() if name not in removed}
        return Contract({**self.on_new_column, **dict.fromkeys(removed, "discard")}, **columns)

    @property
    def freezes_new(self) -> bool:
        """Whether an undeclared field can hold a day."""
        return "freeze" in self.on_new_column.values()

    @property
    def freezes_values(self) -> tuple[str, ...]:
        """The columns of which an unreadable value holds the day."""
        return tuple(name for name, kind in self.columns.items() if kind.on_type_error == "freeze")

    def apply(
        self,
        rows: DataFrame,
        expected: Iterable[str] = (),
        shapes: Sequence[Shape] = (),
    ) -> DataFrame:
        """Type the payload.

        Takes rows with `payload: variant`; adds the declared columns, `_payload: variant` (the
        payload as it is), `_undeclared: array<string>` (its other fields), `_absent: array<string>`
        (the declared ones that it has not; both null where it is no object) and `_unreadable:
        array<string>` (the declared fields whose value is there but cannot be read, or is there in
        a field whose name differs in case alone; without those whose misfits are left out).

        The texts of undeclared fields that are `expected` are taken out in the same go, as the
        struct `_of_expected`; `_of_further: boolean` is whether a row may have others that become
        columns. With `shapes`, `_of_shape.at: int` is the index of the shape that a row has, or
        null; of such a row the names are known, and none of them is looked at.
        """
        expected = self.grown((), sorted(expected))
        rows, texts = self._with_texts(rows, expected, shapes)
        typed = {
            name: kind.typed(_kind(name), F.expr(texts[name]))
            for name, kind in self.columns.items()
        }
        # An object or array has a text, too, so without one there is nothing, or JSON null.
        judged = [n for n, kind in self.columns.items() if kind.on_type_error != "discard"]
        in_other_case = {n: f"array_contains({_OTHER_CASE}, '{n.lower()}')" for n in judged}
        misfits = {
            n: f"(`{n}` IS NULL AND ({texts[n]} IS NOT NULL OR {in_other_case[n]}))" for n in judged
        }
        # In a struct: what a transform does to all texts of a row is not meant for these.
        texts_of = F.struct(*(F.expr(texts[name]).alias(name) for name in expected))
        expected_texts = {EXPECTED: texts_of} if expected else {}
        rows = rows.withColumns({**typed, **self._named(texts, shapes), **expected_texts})
        rows = rows.withColumn(_OTHER_CASE, self._in_other_case(judged, shapes))
        rows = rows.withColumns(
            {"_unreadable": _those(misfits), FURTHER: self._further(expected, shapes)}
        )
        helpers = (name for name in rows.columns if name.startswith(_TEXT))
        return rows.drop(_FIELDS, _VALUES, "_names", "_texts", _JOINED, _OTHER_CASE, *helpers)

    def _with_texts(
        self, rows: DataFrame, expected: Sequence[str], shapes: Sequence[Shape]
    ) -> tuple[DataFrame, Mapping[str, str]]:
        """Add `_payload`, the names of a row's fields and its shape; and SQL for each field's text.

        As texts, all fields are taken out of the object at once, and no cast of a value fails,
        which would take twenty times as long. Where every field of the known shapes is asked for,
        their names are taken out by the same cast, and a text is found by its position.
        """
        payload, asked = F.col("payload"), (*self.columns, *expected)
        few = len(asked) * len(shapes) <= _MOST_TEXTS_BY_SHAPE
        in_one_cast = bool(shapes) and few and all({*shape} <= {*asked} for shape in shapes)
        if in_one_cast:
            rows = rows.withColumn(_FIELDS, payload.try_cast("map<string,string>"))
            names, values = F.map_keys(_FIELDS), F.map_values(_FIELDS)
            rows = rows.withColumns({PAYLOAD: payload, "_names": names, _VALUES: values})
        else:
            names = F.map_keys(payload.try_cast("map<string,variant>"))
            rows = rows.withColumns({PAYLOAD: payload, "_names": names})
        if shapes:
            rows = rows.withColumn(_JOINED, F.concat_ws(_BETWEEN_NAMES, "_names"))
            # In a struct: what a transform does to all numbers of a row is not meant for this one.
            rows = rows.withColumn(SHAPE, F.struct(_shape_of(shapes).alias("at")))
        if in_one_cast:
            texts = {f"{_TEXT}{name}": _text_by_shape(name, shapes) for name in asked}
            return rows.withColumns(texts), {name: f"`{_TEXT}{name}`" for name in asked}
        if asked:
            struct = ",".join(f"`{name}`:string" for name in asked)
            rows = rows.withColumn("_texts", payload.try_cast(f"struct<{struct}>"))
        return rows, {name: f"_texts.`{name}`" for name in asked}

    def _further(self, expected: Sequence[str], shapes: Sequence[Shape]) -> Column:
        """Whether a row may have fields that become columns and are not expected."""
        if "evolve" not in self.on_new_column.values():
            return F.lit(False)
        there = [f"int({EXPECTED}.`{name}` IS NOT NULL)" for name in expected]
        further = F.expr(f"size({UNDECLARED}) > {' + '.join(there) or '0'}")
        known = {
            at: F.lit(not self._may_grow(shape) <= set(expected)) for at, shape in enumerate(shapes)
        }
        return _by_shape(known, further)

    def _may_grow(self, shape: Shape) -> set[str]:
        """Its fields that are columns or may become some, whatever others there are."""
        taken = {name.lower() for name in self.columns} | RESERVED
        return {
            name
            for name in shape
            if COLUMN.fullmatch(name)
            and name.lower() not in taken
            and self.of_new(name) == "evolve"
        }

    def _in_other_case(self, names: Sequence[str], shapes: Sequence[Shape]) -> Column:
        """The names, in lower case, of fields with a value that are declared in another case.

        Null in nearly every row: names are looked at only where a declared column is null, and the
        shape is not known to have no such name; values only where there is one.
        """
        none = F.lit(None).cast("array<string>")
        if not names:
            return none
        folded = {name.lower() for name in names}
        among, declared = (
            ",".join(f"'{name}'" for name in sorted(names)) for names in (folded, self.columns)
        )
        is_such = f"lower(n) IN ({among}) AND NOT n IN ({declared})"
        lacks = " OR ".join(f"`{name}` IS NULL" for name in names)
        looked_at = F.expr(
            f"CASE WHEN {lacks} THEN CASE WHEN exists(_names, n -> {is_such}) THEN transform("
            f"map_keys(map_filter(try_cast({PAYLOAD} AS MAP<STRING, VARIANT>), (n, v) -> "
            f"{is_such} AND NOT is_variant_null(v))), n -> lower(n)) END END"
        )
        plain = {
            at: none
            for at, shape in enumerate(shapes)
            if folded.isdisjoint(map(str.lower, self._undeclared_of(shape)))
        }
        return _by_shape(plain, looked_at)

    def _undeclared_of(self, shape: Shape) -> list[str]:
        return [name for name in shape if name not in self.columns]

    def _named(self, texts: Mapping[str, str], shapes: Sequence[Shape]) -> dict[str, Column]:
        """Which fields that are not declared a row has, and which declared ones it lacks.

        Most rows have a value of each declared field, so that none can be absent.
        """
        found = self._looked_at(texts)
        undeclared = {at: _texts(self._undeclared_of(shape)) for at, shape in enumerate(shapes)}
        absent = {
            at: _texts([name for name in self.columns if name not in shape])
            for at, shape in enumerate(shapes)
        }
        return {
            UNDECLARED: _by_shape(undeclared, found[UNDECLARED]),
            ABSENT: _by_shape(absent, found[ABSENT]),
        }

    def _looked_at(self, texts: Mapping[str, str]) -> dict[str, Column]:
        """The same by the names of each row."""
        declared = ",".join(f"'{name}'" for name in self.columns)
        declared = f"CAST(array({declared}) AS ARRAY<STRING>)"
        values = (f"{texts[name]} IS NOT NULL" for name in self.columns)
        complete = " AND ".join(["_names IS NOT NULL", *values])
        no_more = f"size(_names) = {len(self.columns)}"
        return {
            UNDECLARED: F.expr(
                f"CASE WHEN {complete} AND {no_more} THEN {_NONE} "
                f"ELSE array_except(_names, {declared}) END"
            ),
            ABSENT: F.expr(
                f"CASE WHEN {complete} THEN {_NONE} ELSE array_except({declared}, _names) END"
            ),
        }

    def grown(self, found: Iterable[str], known: Iterable[str]) -> list[str]:
        """The undeclared fields that are columns: those of the table, then new ones by name.

        `found` are the fields of a batch, `known` the columns that the table has.
        Names that Delta cannot store, that begin with `_` or that differ from another only in
        case stay in bronze; so does what exceeds `MOST_NEW_COLUMNS`.
        """
        taken = {name.lower() for name in self.columns} | RESERVED
        grown = [
            name
            for name in known
            if name.lower() not in taken
            and COLUMN.fullmatch(name)
            and self.of_new(name) == "evolve"
        ]
        taken |= {name.lower() for name in grown}
        for name in sorted(set(found)):
            if len(grown) >= MOST_NEW_COLUMNS:
                break
            new = COLUMN.fullmatch(name) and name.lower() not in taken
            if new and self.of_new(name) == "evolve":
                grown.append(name)
                taken.add(name.lower())
        return grown

    def in_other_case(self, found: Iterable[str], known: Iterable[str]) -> list[str]:
        """The fields of a batch that only their case keeps out of an undeclared column, described.

        `found` are the fields of a batch, `known` the columns that the table has.
        """
        fields = set(found)
        columns = {name.lower(): name for name in self.grown(fields, known)}
        return [
            f"{name} differs from the column {columns[name.lower()]} only in case, and stays in "
            "bronze: repair the feed"
            for name in sorted(fields - set(self.columns))
            if columns.get(name.lower(), name) != name
        ]

    def refused(self, found: Iterable[str]) -> list[str]:
        """The fields of a batch that the contract refuses, each described."""
        declared = {name.lower(): name for name in self.columns}
        return [
            f"{name} (declared as {declared[name.lower()]})" if name.lower() in declared else name
            for name in sorted(set(found) - set(self.columns))
            if self.of_new(name) == "freeze"
        ]

    def missing(self, found: Iterable[str], asked: Iterable[str]) -> list[str]:
        """Those of the `asked` columns that no row has, each described.

        A column that is not required is named only where an undeclared field resembles it.
        """
        fields = set(found)
        unknown = sorted(fields - set(self.columns))
        missing = []
        for name in asked:
            if name in fields:
                continue
            like = _alike(name, unknown)
            if like:
                missing.append(
                    f"{name} is in no row, and {like} is, which nobody declared: renamed?"
                )
            elif self.columns[name].required:
                missing.append(f"{name} is in no row")
        return missing

    @staticmethod
    def expected(rows: DataFrame) -> Sequence[str]:
        """The undeclared fields that were expected of `rows` that `apply` made."""
        texts = rows.schema[EXPECTED].dataType if EXPECTED in rows.columns else None
        return texts.names if isinstance(texts, StructType) else ()

    @staticmethod
    def undeclared(name: str, rows: DataFrame) -> Column:
        """The text of a field that is not declared and may be a column, or null.

        Of `rows` that `apply` made, where the field may have been expected.
        """
        if name in Contract.expected(rows):
            return F.col(EXPECTED).getField(name)
        value = F.try_variant_get(PAYLOAD, f"$.{name}", "variant")
        text = F.coalesce(value.try_cast("string"), F.to_json(value))
        return F.when(~F.is_variant_null(value), text)


def known_shapes(sampled: Iterable[Shape]) -> list[Shape]:
    """The first of the sampled shapes of which a row's joined names leave no doubt."""
    plain = (
        shape
        for shape in sampled
        if 0 < len(shape) <= LONGEST_SHAPE and not any(_BETWEEN_NAMES in name for name in shape)
    )
    return list(islice(plain, MOST_SHAPES))


def _shape_of(shapes: Sequence[Shape]) -> Column:
    """The index of a row's shape: its names joined, of which there are as many.

    A joined name that had the separator inside would make the names fewer.
    """
    found = F.lit(None).cast("int")
    for at, shape in enumerate(shapes):
        same = (F.size("_names") == len(shape)) & (
            F.col(_JOINED) == F.lit(_BETWEEN_NAMES.join(shape))
        )
        found = F.when(same, F.lit(at)).otherwise(found)
    return found


def _by_shape(known: Mapping[int, Column], other: Column) -> Column:
    """The value of a row's shape; of a row of no known one, the other."""
    found = other
    for at, value in known.items():
        found = F.when(F.col(SHAPE_AT) == at, value).otherwise(found)
    return found


def _text_by_shape(name: str, shapes: Sequence[Shape]) -> Column:
    """The text of a field: in a row of a known shape at its position, in any other by its name."""
    known = " ".join(
        f"WHEN {at} THEN get({_VALUES}, {shape.index(name)})"
        for at, shape in enumerate(shapes)
        if name in shape
    )
    by_name = f"try_element_at({_FIELDS}, '{name}')"
    return F.expr(f"CASE {SHAPE_AT} {known} ELSE {by_name} END" if known else by_name)


def _those(conditions: Mapping[str, str]) -> Column:
    """The names whose condition is met; nearly always none is, and no array is built."""
    if not conditions:
        return F.expr(_NONE)
    names = ", ".join(f"CASE WHEN {sql} THEN '{name}' END" for name, sql in conditions.items())
    return F.expr(
        f"CASE WHEN {' OR '.join(conditions.values())} "
        f"THEN array_except(array({names}), array(CAST(NULL AS STRING))) ELSE {_NONE} END"
    )


def _texts(names: Sequence[str]) -> Column:
    """A constant array, in few calls to the JVM."""
    return F.split(F.lit(_BETWEEN_NAMES.join(names)), _BETWEEN_NAMES) if names else F.expr(_NONE)


def _kind(name: str) -> Column:
    """The JSON type of a field, as `schema_of_variant` gives it.

    By way of a text, so that it is found out where it is asked for. A scan takes a value out of a
    VARIANT for every row, whether it is asked for or not. Spark does not compile a stage with
    `from_json` as a whole, which is an advantage: as one long method, a fresh Java took longer for
    a million rows.
    """
    value = f"from_json(to_json({PAYLOAD}), '`{name}` VARIANT').`{name}`"
    return F.expr(f"schema_of_variant({value})")


def _alike(name: str, others: Sequence[str]) -> str:
    """The one of the others that resembles a name most; "" if none does."""
    bare = {_bare(other): other for other in reversed(others)}
    found = difflib.get_close_matches(_bare(name), bare, 1, _ALIKE)
    return bare[found[0]] if found else ""


def _bare(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())
