"""`python -m lemmata` is `lemmata`; torchrun starts it so."""

from lemmata.cli.main import main

__all__: list[str] = []
if __name__ == "__main__":
    main()
