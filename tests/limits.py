"""Limits against hanging, and against nothing else: ten times and more what an idle machine needs.

No test says anything about speed. A limit that a busy machine can reach is a defect of the test.
"""

COMMAND = 3000.0  # seconds for a command in a process of its own
PAGE = 600.0  # seconds for a browser to do what it is asked
