"""python -m plimsoll.lint"""
import sys

from .cli import main

sys.exit(main())
