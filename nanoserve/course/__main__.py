"""What can be done with the course from a terminal: python -m nanoserve.course progress [FOLDER …]"""

import sys

from nanoserve.course import progress

if sys.argv[1:2] != ["progress"]:
    sys.exit("usage: python -m nanoserve.course progress [FOLDER or NOTEBOOK ...]")
sys.exit(progress.main(sys.argv[2:]))
