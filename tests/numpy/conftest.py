"""The frontend's driver lies beside the tests."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
