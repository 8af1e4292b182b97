#!/usr/bin/env python3
"""Compares what onnxruntime computes from exported networks with what dlrun has computed. By hand:

    pip install onnx onnxruntime numpy
    ninja -C build/release onnx_cases
    mkdir cases && build/release/tests/onnx_cases cases 200
    python tests/nn/onnx/compare.py cases
"""
import pathlib
import sys

import numpy
import onnx
import onnxruntime

TOLERANCE = 1e-5  # of the largest magnitude


def compare(path):
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    worst = 0.0
    inputs = sorted(path.parent.glob(path.stem + ".*.in.npy"))
    if not inputs:
        return "there are no inputs to compare", worst
    for given in inputs:
        wanted = numpy.load(str(given).replace(".in.npy", ".out.npy"))
        got = session.run(None, {name: numpy.load(given)})[0]
        if got.shape != wanted.shape:
            return f"{given.name}: shape {got.shape}, wanted {wanted.shape}", 0
        error = numpy.abs(got - wanted).max() / numpy.abs(wanted).max()
        worst = max(worst, float(error))
        if not error <= TOLERANCE:
            return f"{given.name}: differs by {error:.2g}", worst
    return None, worst


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
        elif not path.stem.startswith("random"):
            print(f"{path.name}: differs by {error:.2g}")
    print(f"{len(paths)} files, {failed} failed, largest difference {worst:.2g}")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
