# How lit runs the tests below this folder; tools and paths come from lit.site.cfg.py.
import os

import lit.formats

config.name = "omnibal"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.omnibal_test_output

# The build's tools come before anything installed.
config.environment["PATH"] = os.pathsep.join(
    [config.omnibal_tools, config.llvm_tools, os.environ["PATH"]])
config.substitutions.append(("%data", config.omnibal_test_data))
config.substitutions.append(("%inputs", os.path.join(os.path.dirname(__file__), "Inputs")))
# The Python of all tests, with the packages of test/requirements.txt; lit itself may run in another.
config.substitutions.append(("%python", config.omnibal_python))
