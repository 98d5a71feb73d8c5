# How lit runs the tests below this folder. Paths come from lit.site.cfg.py, which CMake writes.
import os

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "omnibal"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.omnibal_obj_root

# FileCheck, count, not and %python, which is the Python that runs lit.
llvm_config.use_default_substitutions()
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)

# The build's tools come before anything installed, and one that is not built is an error.
tools = ["omnibal-compile", "omnibal-opt", "omnibal-plan", "omnibal-run"]
llvm_config.add_tool_substitutions(
    [ToolSubst(tool, unresolved="fatal") for tool in tools], config.omnibal_tools_dir)

config.substitutions.append(("%data", config.omnibal_test_data))
config.substitutions.append(("%inputs", os.path.join(config.test_source_root, "Inputs")))
