"""What the tests share: reading and writing safetensors, running stepc, comparing numbers, recorded cases, command lines.

A script in tests/FOLDER finds it without installation:

    sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
    from tool import command, comparison, recorded, runner, safetensors
"""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTS = os.path.join(ROOT, "tests")
