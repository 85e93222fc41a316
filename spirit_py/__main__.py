"""Run the command line as ``python -m spirit_py``."""

from spirit_py.cli import main

if __name__ == "__main__":
    main()
