#!/usr/bin/env python3
"""Compares what onnxruntime computes from exported networks with what dlrun has computed. By hand:

    pip install onnx onnxruntime numpy
    ninja -C build/release onnx_cases
    mkdir cases && build/release/tests/onnx_cases cases 200   # or NAME: those with it in their name
    python tests/nn/onnx/compare.py cases
"""
import pathlib
import sys

import numpy
import onnx
import onnx.reference
import onnxruntime

TOLERANCE = 1e-5  # of the largest magnitude
OF_HALF = {"f16": 4e-3, "bf16": 3e-2}  # of functions that round each result so


def numbered(path, call, what):
    """The arrays path.CALL.WHAT.0.npy, path.CALL.WHAT.1.npy, ..."""
    arrays = []
    while (file := path.with_name(f"{path.stem}.{call}.{what}.{len(arrays)}.npy")).exists():
        arrays.append(numpy.load(file))
    return arrays


def difference(got, wanted):
    """The largest difference in units of the largest wanted magnitude; infinite if only one is."""
    if got.size == 0:
        return 0.0
    if got.dtype == bool:
        return float((got != wanted).any())
    got, wanted = got.astype(float), wanted.astype(float)
    same = (got == wanted) | (numpy.isnan(got) & numpy.isnan(wanted))
    finite = numpy.isfinite(wanted)
    scale = numpy.abs(wanted[finite]).max(initial=0) or 1.0
    with numpy.errstate(invalid="ignore"):
        error = numpy.where(same, 0, numpy.abs(got - wanted)).max() / scale
    return float(error) if numpy.isfinite(error) else float("inf")


def compare(path):
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [port.name for port in session.get_inputs()]
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        # Of some dtypes onnxruntime lacks nodes that ONNX has.
        session = onnx.reference.ReferenceEvaluator(str(path))
        names = session.input_names
    tolerance = next((of for dtype, of in OF_HALF.items() if f"_{dtype}_" in path.stem), TOLERANCE)
    worst, call = 0.0, 0
    while given := numbered(path, call, "in"):
        wanted = numbered(path, call, "out")
        got = session.run(None, dict(zip(names, given)))
        for i, (ours, theirs) in enumerate(zip(wanted, got, strict=True)):
            what = f"call {call}, output {i}"
            if theirs.shape != ours.shape or theirs.dtype != ours.dtype:
                return f"{what}: {theirs.dtype} {theirs.shape}, wanted {ours.dtype} {ours.shape}", 0
            error = difference(theirs, ours)
            worst = max(worst, error)
            if not error <= tolerance:
                return f"{what}: differs by {error:.2g}", worst
        call += 1
    return (None, worst) if call else ("there are no inputs to compare", worst)


def main():
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
    failed, worst = 0, 0.0
    for path in paths:
        try:
            why, error = compare(path)
        except Exception as problem:  # onnxruntime and onnx have many
            why, error = str(problem).splitlines()[0][:300], 0
        worst = max(worst, error)
        if why:
            failed += 1
            print(f"{path.name}: {why}")
        elif not path.stem.startswith(("random", "edge")):
            print(f"{path.name}: differs by {error:.2g}")
    print(f"{len(paths)} files, {failed} failed, largest difference {worst:.2g}")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
