#!/usr/bin/env python3
"""The ONNX standard's own node tests, for every operator of the import list.

    python3 test/e2e/node_tests/run_node_tests.py --driver build/bin/omnibal-node-test [--all]

Cases come from the installed `onnx` package (opsets 13 to 23) and from Debian's libonnx-testdata (its older
opsets). Each is imported, with the inputs that determine shapes bound as constants, and run by the reference
interpreter; those that are float32 and whose shapes do not depend on data also on the host backend. Prints how many
of how many pass and a table of what is not run, with the reason. Fails if a result is wrong or if anything does not
run for a reason that is not in NOT_RUN below.
"""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

import onnx
from onnx import TensorProto, numpy_helper

OPERATORS = set("""
Add Sub Mul Div Pow Sqrt Reciprocal Neg Exp Erf Tanh Sigmoid Softmax LogSoftmax Cos Sin MatMul Gemm Conv Transpose
Reshape Flatten Squeeze Unsqueeze Concat Split Slice Gather GatherND GatherElements ScatterND ScatterElements Expand
Shape Size Range Cast CastLike Constant ConstantOfShape Identity Where Equal Less LessOrEqual Greater GreaterOrEqual Not
And Or ReduceMean ReduceSum ReduceMax Max Min Clip CumSum NonZero Trilu Dropout LayerNormalization Gelu
SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss
Resize Tile Mod SplitToSequence SequenceAt Attention RMSNormalization RotaryEmbedding
Abs Ceil Floor IsNaN LeakyRelu Log Mean Pad ReduceMin ReduceProd Relu Sign Sum Xor
AveragePool GlobalAveragePool Einsum
ArgMax ArgMin Softplus
""".split())

# Inputs that determine shapes (or how many elements there are), by position.
BOUND = {
    "Reshape": [1], "Expand": [1], "Slice": [1, 2, 3, 4], "Squeeze": [1], "Unsqueeze": [1], "Split": [1], "Tile": [1],
    "Range": [0, 1, 2], "ConstantOfShape": [0], "CumSum": [1], "Pad": [1, 3], "Trilu": [1], "ReduceMean": [1],
    "ReduceSum": [1], "ReduceMax": [1], "ReduceMin": [1], "ReduceProd": [1], "SplitToSequence": [1],
    "SequenceAt": [1], "Resize": [1, 2, 3], "Dropout": [1, 2],
}
# Shapes of results depend on data: interpreter only.
DATA_DEPENDENT = {"NonZero"}

TYPES = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL,
         TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8,
         TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}
HOST_INPUTS = {TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL}

# What is known not to run: pattern of "NAME: MESSAGE" and the reason that the table gives.
NOT_RUN = {
    "interpreter": [
        (r"training_dropout.*('omnibal.dropout' op has no rule|'z' is no tensor)", "random numbers: dropout in training mode"),
        (r"mode '(reflect|edge|wrap)'", "Pad other than constant: no model of the list has it"),
        (r"average pooling with padding, or with strides", "AveragePool with padding or windows that overlap: no model of the list has it"),
        (r"twice in one operand", "Einsum of a diagonal"),
        (r"center_crop_pad.*pads that are not constant", "pads computed by control arithmetic on shapes"),
        (r"(?i)resize.*(antialias|tf_crop_and_resize)", "Resize with antialiasing or cropping: done by preprocessing"),
        (r"a condition that is not constant|loops;", "control flow that depends on data"),
    ],
    "host": [],
}


# How many cases there are at least; fewer mean that some were lost on the way.
LEAST = {"of the onnx package": 850, "of libonnx-testdata": 500, "that the interpreter runs": 1350, "that the host runs": 1050}


def elements(value):
    return value.type.tensor_type.elem_type if value.type.HasField("tensor_type") else None


def opset(model):
    return max([o.version for o in model.opset_import if o.domain in ("", "ai.onnx")] or [0])


def classify(model):
    """(reason not to run or None, whether the host backend runs it)"""
    if not 13 <= opset(model) <= 23:
        return f"opset {'below 13' if opset(model) < 13 else 'above 23'}", False
    for value in list(model.graph.input) + list(model.graph.output):
        kind = elements(value)
        if kind is None:
            return "sequence or optional values", False
        if kind not in TYPES:
            return f"elements of {TensorProto.DataType.Name(kind).lower()}", False
    bound = bound_names(model)
    host = all(elements(o) == TensorProto.FLOAT for o in model.graph.output)
    host &= all(elements(i) in HOST_INPUTS for i in model.graph.input if i.name not in bound)
    host &= any(elements(i) == TensorProto.FLOAT for i in model.graph.input if i.name not in bound)
    host &= not any(n.op_type in DATA_DEPENDENT for n in model.graph.node)
    return None, host


def bound_names(model):
    inputs = {i.name for i in model.graph.input}
    names = set()
    for node in model.graph.node:
        for position in BOUND.get(node.op_type, []):
            if position < len(node.input) and node.input[position] in inputs:
                names.add(node.input[position])
    return names


def save(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data.SerializeToString())
    return path


def stored_type(path):
    tensor = TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    return tensor.data_type


def wheel_cases(work):
    warnings.filterwarnings("ignore")
    from onnx.backend.test.case.node import collect_testcases
    for case in collect_testcases(None):
        if case.model is None or not case.data_sets:
            continue
        folder = os.path.join(work, "onnx", case.name)

        def write(case=case, folder=folder):
            given, wanted = case.data_sets[0]
            files = {"model": save(f"{folder}/model.onnx", case.model)}
            for kind, values, arrays in (("input", case.model.graph.input, given),
                                         ("output", case.model.graph.output, wanted)):
                files[kind] = [save(f"{folder}/{kind}_{i}.pb", numpy_helper.from_array(array, value.name))
                               for i, (value, array) in enumerate(zip(values, arrays))]
            return files
        yield "onnx/" + case.name, case.model, case.rtol, case.atol, write


# The standard's cases of Einsum are of opsets below 13 and above 23: here they are of 18, against NumPy.
EQUATIONS = {
    "ij->ji": [(3, 4)], "ij->i": [(3, 4)], "ba": [(3, 4)], "i,i": [(5,), (5,)], "i,j->ij": [(3,), (4,)],
    "ab,ab->ab": [(3, 4), (3, 4)], "bij, bjk -> bik": [(5, 2, 3), (5, 3, 4)], "bhwc,hkc->bhwk": [(2, 3, 4, 5), (3, 6, 5)],
    "bhwc,wkc->bhwk": [(2, 3, 4, 5), (4, 6, 5)], "bqhd,bkhd->bhqk": [(2, 3, 4, 5), (2, 6, 4, 5)],
    "abcd,bd->ac": [(2, 3, 4, 5), (3, 5)], "abc,dc->dab": [(2, 3, 4), (5, 4)], "abc,bcd->ad": [(2, 3, 4), (3, 4, 5)],
    "ab,bc,cd->ad": [(2, 3), (3, 4), (4, 5)], "abx,bcy->ac": [(2, 3, 4), (3, 4, 5)],
    "...ij,...jk->...ik": [(2, 3, 4, 5), (2, 3, 5, 6)], "...ij,jk": [(2, 3, 4), (4, 5)], "...a->a...": [(2, 3, 4)],
}


def einsum_cases(work):
    import numpy
    random = numpy.random.default_rng(1)
    for number, (equation, shapes) in enumerate(EQUATIONS.items()):
        given = [random.standard_normal(shape).astype(numpy.float32) for shape in shapes]
        wanted = numpy.asarray(numpy.einsum(equation.replace(" ", ""), *given))
        values = [onnx.helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)]
        result = onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, wanted.shape)
        node = onnx.helper.make_node("Einsum", [v.name for v in values], ["y"], equation=equation)
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "einsum", values, [result]), ir_version=9,
                                       opset_imports=[onnx.helper.make_opsetid("", 18)])
        folder = os.path.join(work, "own", f"einsum_{number}")

        def write(model=model, folder=folder, given=given, wanted=wanted):
            return {"model": save(f"{folder}/model.onnx", model),
                    "input": [save(f"{folder}/input_{i}.pb", numpy_helper.from_array(x, f"x{i}")) for i, x in enumerate(given)],
                    "output": [save(f"{folder}/output_0.pb", numpy_helper.from_array(wanted, "y"))]}
        yield f"own/einsum {equation}", model, 1e-5, 1e-6, write


def debian_cases():
    for folder in sorted(glob.glob("/usr/share/libonnx-testdata/data/node/test_*")):
        model = onnx.load(f"{folder}/model.onnx")

        def write(model=model, folder=folder):
            data = f"{folder}/test_data_set_0"
            return {"model": f"{folder}/model.onnx",
                    "input": [f"{data}/input_{i}.pb" for i in range(len(model.graph.input))],
                    "output": [f"{data}/output_{i}.pb" for i in range(len(model.graph.output))]}
        yield "libonnx-testdata/" + os.path.basename(folder), model, 1e-3, 1e-7, write


def collect(work):
    """(cases to run, {reason: names} of those that are not)"""
    cases, left_out = [], collections.defaultdict(list)
    for name, model, rtol, atol, write in [*wheel_cases(work), *debian_cases(), *einsum_cases(work)]:
        if any(n.op_type not in OPERATORS or n.domain not in ("", "ai.onnx") for n in model.graph.node):
            continue  # an operator that is not on the list
        reason, host = classify(model)
        if reason:
            left_out[reason].append(name)
            continue
        files, bound = write(), bound_names(model)
        if any(stored_type(f) != elements(v) for v, f in zip([*model.graph.input, *model.graph.output],
                                                             files["input"] + files["output"])):
            left_out["data of another type than the model's (bfloat16 stored as integers)"].append(name)
            continue
        kinds = {elements(v) for v in list(model.graph.input) + list(model.graph.output)}
        if kinds & {TensorProto.FLOAT16, TensorProto.BFLOAT16}:  # computed in float32 here
            rtol, atol = max(rtol, 1e-2), max(atol, 1e-2)
        cases.append({
            "name": name, "model": os.path.abspath(files["model"]), "rtol": rtol, "atol": max(atol, 1e-6), "host": host,
            "inputs": [{"name": v.name, "file": os.path.abspath(f), "bound": v.name in bound}
                       for v, f in zip(model.graph.input, files["input"])],
            "outputs": [{"name": v.name, "file": os.path.abspath(f)}
                        for v, f in zip(model.graph.output, files["output"])]})
    return cases, left_out


def run(driver, cases, work):
    """{(name, engine): (verdict, message)}; a case in which the driver dies is a crash, the rest runs on."""
    results, remaining = {}, list(cases)
    while remaining:
        path = os.path.join(work, "cases.json")
        with open(path, "w") as file:
            json.dump(remaining, file)
        process = subprocess.run([driver, path], capture_output=True, text=True)
        current, host_phase = None, False
        for line in process.stdout.splitlines():
            name, engine, verdict, message = (line.split("\t") + [""] * 4)[:4]
            if engine == "-":
                current, host_phase = name, verdict == "host-start"
            else:
                results[name, engine] = (verdict, message)
        if process.returncode == 0:
            break
        if current is None:
            sys.exit(f"run_node_tests.py: {driver} failed: {process.stderr[-2000:]}")
        engine = "host" if host_phase or (current, "interpreter") in results else "interpreter"
        results[current, engine] = ("crash", f"exit {process.returncode}: {process.stderr[-300:].strip()}")
        for case in remaining:
            if case["name"] == current:
                case["host"] = False
        done = {name for name, e in results if e == "interpreter"}
        host_done = {name for name, e in results if e == "host"}
        remaining = [c for c in remaining
                     if c["name"] != current and (c["name"] not in done or (c["host"] and c["name"] not in host_done))]
    return results


def coverage(cases, imported):
    """What is wrong where cases are missing that the packages are known to have."""
    found = {"of the onnx package": sum(c["name"].startswith("onnx/") for c in cases),
             "of libonnx-testdata": sum(c["name"].startswith("libonnx-testdata/") for c in cases),
             "that the interpreter runs": len(imported), "that the host runs": sum(c["host"] for c in imported)}
    return [f"only {found[what]} cases {what}, expected {least} at least" for what, least in LEAST.items() if found[what] < least]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--work", help="folder for the cases' files (default: a temporary one)")
    parser.add_argument("--match", default="", help="only cases whose name holds this")
    parser.add_argument("--reuse", action="store_true", help="the cases that an earlier run wrote to --work")
    parser.add_argument("--all", action="store_true", help="list every case that is not run or fails")
    arguments = parser.parse_args()
    arguments.work = arguments.work or tempfile.mkdtemp(prefix="omnibal-node-tests-")
    os.makedirs(arguments.work, exist_ok=True)
    written = os.path.join(arguments.work, "collected.json")
    if arguments.reuse and os.path.exists(written):
        with open(written) as file:
            cases, left_out = json.load(file)
    else:
        cases, left_out = collect(arguments.work)
        with open(written, "w") as file:
            json.dump([cases, left_out], file)
    cases = [c for c in cases if arguments.match in c["name"]]
    results = run(arguments.driver, cases, arguments.work)

    bad = []
    imported = [c for c in cases if results.get((c["name"], "interpreter"), ("",))[0] == "pass"]
    for engine, wanted in (("interpreter", cases), ("host", [c for c in imported if c["host"]])):
        missing = collections.defaultdict(list)
        counts = collections.Counter()
        for case in wanted:
            verdict, message = results.get((case["name"], engine), ("not run", ""))
            kind = "float32" if case["host"] else "other"
            counts[kind, "all"] += 1
            if verdict == "pass":
                counts[kind, "pass"] += 1
                continue
            text = f"{case['name']}: {verdict}: {message}"
            for pattern, reason in NOT_RUN[engine]:
                if verdict in ("import", "lower", "run") and re.search(pattern, text):
                    missing[reason].append(case["name"])
                    break
            else:
                bad.append(f"{engine}: {text}")
        print(f"{engine}: {counts['float32', 'pass']} of {counts['float32', 'all']} float32 cases pass", end="")
        if engine == "interpreter":
            print(f", {counts['other', 'pass']} of {counts['other', 'all']} others (other types, shapes by data)", end="")
        print()
        for reason, names in sorted(missing.items()):
            print(f"  {len(names):5}  {reason}")
            if arguments.all:
                print("".join(f"           {n}\n" for n in names), end="")
    print("cases of these operators that are not run at all:")
    for reason, names in sorted(left_out.items()):
        print(f"  {len(names):5}  {reason}")
        if arguments.all:
            print("".join(f"           {n}\n" for n in names), end="")
    if not arguments.match:
        bad += coverage(cases, imported)
    for line in bad:
        print("FAILED " + line)
    if bad or not cases:
        sys.exit(f"run_node_tests.py: {len(bad)} failures")


if __name__ == "__main__":
    main()
