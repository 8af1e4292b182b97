"""What pyproject.toml cannot say: the version, and the tag of a wheel with programs in it."""

import os

from setuptools import setup
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """For any Python 3 on this platform: no file is linked with Python."""

    def get_tag(self):
        return "py3", "none", os.environ["DLRUN_WHEEL_PLATFORM"]


class WithPrograms(Distribution):
    def has_ext_modules(self):
        return True


setup(version=os.environ["DLRUN_WHEEL_VERSION"], distclass=WithPrograms, cmdclass={"bdist_wheel": Wheel})
