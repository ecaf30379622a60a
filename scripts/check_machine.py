"""Say in one line what the machine lacks, before anything is installed. Runs on any Python 3."""

import os
import re
import shutil
import subprocess
import sys


def main():
    if sys.version_info < (3, 11):
        found = ".".join(str(part) for part in sys.version_info[:3])
        sys.exit(
            "Python %s is too old: Python 3.11 or newer is needed. Install it and run "
            "`make PYTHON=python3.11 ...`." % found
        )
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    remedy = "Install Java 17 or 21, for example `apt-get install openjdk-17-jre-headless`."
    if not java or not os.path.exists(java):
        sys.exit("Java is missing%s. %s" % (" in JAVA_HOME (%s)" % home if home else "", remedy))
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(1\.)?(\d+)', printed)
    if not version or int(version.group(2)) < 17:
        found = version.group(2) if version else "of unknown version"
        sys.exit("Java %s is too old (%s). %s" % (found, java, remedy))
    try:
        import ensurepip  # noqa: F401  (Debian leaves it out of python3)
    except ImportError:
        sys.exit(
            "Python's venv is missing: install it, for example `apt-get install python3-venv`."
        )


if __name__ == "__main__":
    main()
