"""Tables of somebody's own: a shop whose sources tell what is new in four other ways."""
