#!/usr/bin/env python3
"""What ptxas made of dlrun's CUDA kernels: registers, stack, spills, shared memory and 128-bit accesses, by kernel.

    python3 tests/gpu/kernel_table.py build/release/lib/libdlrun_cuda.so            # a table in Markdown
    python3 tests/gpu/kernel_table.py build/release/lib/libdlrun_cuda.so --json
    python3 tests/gpu/kernel_table.py build/release/lib/libdlrun_cuda.so --check    # exit code 1: a promise is broken

Promises: no kernel spills registers, an element-wise kernel has at most 64 of them, and a kernel of contiguous rows loads or stores
128 bits at once. A kernel without a stack spills nothing. One with a stack keeps an array there, or spills: only a reload of a spilled
register is LDL.LU. It reads one architecture. Needs CUDA's cuobjdump and nvdisasm, in PATH or beside nvcc; without them, or without
the module, it exits with 77.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "core/kernels/cuda"
MOST_REGISTERS = 64
ELEMENTWISE = ("elementwise/", "copy/", "optimizer/", "random/")  # folders
# What keeps an array on the stack, and why.
STACKS = {
    "elementwise/unary.cu strided_kernel": "sin, cos and tan of large arguments",
    "elementwise/unary.cu strided_gradient_kernel": "sin, cos and tan of large arguments",
    "random/random.cu normal_kernel": "sin and cos of large arguments",
}
# Kernels of contiguous rows: instances (of the rest of their mangled names) that need no 128-bit access, or None.
WIDE = {
    "elementwise/unary.cu flat_kernel": None,
    "elementwise/unary.cu flat_gradient_kernel": None,
    "elementwise/binary.cu flat_kernel": None,
    "elementwise/ternary.cu where_kernel": None,
    "copy/copy.cu convert_kernel": None,
    "linear/bias_relu.cu kernel": r"Li1E",  # rows of odd lengths
    "linear/bias_relu.cu mask_kernel": r"Li1E",
    "norm/batch_norm.cu gradient_kernel": None,
    "norm/batch_norm.cu gradient_sums_across_kernel": None,
    "norm/batch_norm.cu gradient_sums_kernel": None,
    "norm/batch_norm.cu map_kernel": None,
    "norm/batch_norm.cu moments_across_kernel": None,
    "norm/batch_norm.cu moments_kernel": None,
    "norm/row_norm.cu row_gradient_kernel": None,
    "norm/row_norm.cu row_norm_kernel": None,
    # Two elements of f64 would not fit into 64 registers beside the factors of these steps.
    "optimizer/optimizer.cu optimizer_kernel": r"(8Adam|9NAdam)StepEdE",
    "optimizer/lists.cu clip_norm_kernel": None,
    "optimizer/lists.cu clip_value_kernel": None,
    "optimizer/optimizer.cu unscale_kernel": None,
    "random/random.cu bernoulli_kernel": None,
    "random/random.cu dropout_kernel": None,
    "random/random.cu normal_kernel": None,
    "random/random.cu randint_kernel": None,
    "random/random.cu uniform_kernel": None,
    "reduce/reduce.cu extreme_kernel": None,
    "reduce/reduce.cu reduce_kernel": None,
    "reduce/reduce.cu square_kernel": None,
    "softmax/softmax.cu cross_entropy_backward_kernel": None,
    "softmax/softmax.cu mse_backward_kernel": None,
    "softmax/softmax.cu row_sums_kernel": None,
    "softmax/softmax.cu softmax_backward_kernel": None,
    "softmax/softmax.cu softmax_kernel": None,
}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def tool(name):
    found = shutil.which(name)
    nvcc = shutil.which("nvcc")
    for folder in filter(None, [nvcc and os.path.dirname(nvcc), os.environ.get("CUDA_HOME", "") + "/bin", "/usr/local/cuda/bin"]):
        found = found or shutil.which(name, path=folder)
    return found or skip(f"there is no {name} in PATH, CUDA_HOME or /usr/local/cuda")


def output(*command, cwd=None):
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def architecture(listing, wanted):
    found = sorted({int(number) for number in re.findall(r"\.sm_(\d+)\.cubin", listing)})
    if not found:
        skip("the module has no machine code")
    if wanted and wanted not in found:
        sys.exit(f"the module has no code for sm_{wanted}, but for {', '.join(map(str, found))}")
    return wanted or (90 if 90 in found else found[-1])


def sources():
    """{(file that nvcc compiles, without .cu; kernel): source}."""
    files = {path.stem: [path] for path in KERNELS.rglob("*.cu")}
    for name, parts in re.findall(r"dl_cuda_kernels\(\w+ (\w+) ([^)]*)\)", (KERNELS / "CMakeLists.txt").read_text()):
        files[name] = [KERNELS / part for part in parts.split()]
    kernel = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(")
    return {(name, found): str(path.relative_to(KERNELS)) for name, paths in files.items() for path in paths
            for found in kernel.findall(path.read_text())}


def kernel_of(mangled, places):
    """(source and name, the rest of the mangled name)"""
    anonymous = re.search(r"_GLOBAL__N__[0-9a-f]+_(\d+)_(.*)", mangled)
    if not anonymous:
        name = re.search(r"(DeviceRadixSort\w*?Kernel|EmptyKernel)", mangled)
        return f"CUB {name[1]}" if name else mangled, ""
    length = int(anonymous[1])
    file = re.sub(r"_cu$", "", anonymous[2][:length])
    digits, rest = re.match(r"(\d+)(.*)", anonymous[2][length + len("_00000000"):]).groups()
    name = rest[:int(digits)]
    return f"{places.get((file, name), file + '.cu')} {name}", rest[int(digits):]


def instructions(nvdisasm, cubin):
    """{kernel: {what it does}}"""
    found = collections.defaultdict(set)
    kernel = None
    for line in output(nvdisasm, "-ndf", "-c", cubin).splitlines():
        if line.startswith(".text."):
            kernel = line[len(".text."):].rstrip(":")
        access = re.search(r"\*/\s+(?:@\S+\s+)?(LDG|STG|LDL)\.(\S+)", line)
        if access and (access[1] == "LDL" or ".128" in "." + access[2]):
            if access[1] != "LDL":
                found[kernel].add(access[1])
            elif access[2].startswith("LU"):
                found[kernel].add("spill")
    return found


def read(module, wanted):
    if not module.exists():
        skip(f"this build has no {module.name}")
    cuobjdump, nvdisasm = tool("cuobjdump"), tool("nvdisasm")
    arch = architecture(output(cuobjdump, "-lelf", module), wanted)
    usage = output(cuobjdump, "-arch", f"sm_{arch}", "--dump-resource-usage", module)
    with tempfile.TemporaryDirectory() as folder:
        output(cuobjdump, "-xelf", f"sm_{arch}.", module.resolve(), cwd=folder)
        cubins = sorted(pathlib.Path(folder).glob("*.cubin"), key=lambda path: -path.stat().st_size)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            does = {name: what for part in pool.map(lambda path: instructions(nvdisasm, path), cubins) for name, what in part.items()}
    places = sources()
    kernels = []
    for mangled, *numbers in re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", usage):
        name, rest = kernel_of(mangled, places)
        registers, stack, shared = map(int, numbers)
        what = does.get(mangled, set())
        kernels.append({"kernel": name, "instance": rest, "registers": registers, "stack": stack, "shared": shared, "spills": "spill" in what,
                        "load_128": "LDG" in what, "store_128": "STG" in what})
    return arch, sorted(kernels, key=lambda kernel: (kernel["kernel"], kernel["instance"]))


def by_name(kernels):
    groups = collections.defaultdict(list)
    for kernel in kernels:
        groups[kernel["kernel"]].append(kernel)
    return groups


def broken(kernels):
    """One sentence for each promise that a kernel breaks."""
    found = []
    for kernel in kernels:
        name = f"{kernel['kernel']} ({kernel['instance'] or 'no template'})"
        if kernel["spills"]:
            found.append(f"{name} spills registers: give it a second launch bound (kFewBlocks)")
        elif kernel["stack"] and kernel["kernel"] not in STACKS:
            found.append(f"{name} has {kernel['stack']} bytes of stack: index its arrays by constants, or explain it in STACKS")
        if kernel["kernel"].startswith(ELEMENTWISE) and kernel["registers"] > MOST_REGISTERS:
            found.append(f"{name} has {kernel['registers']} registers, at most {MOST_REGISTERS}")
        if kernel["kernel"] in WIDE and not kernel["load_128"] and not kernel["store_128"]:
            exempt = WIDE[kernel["kernel"]]
            if exempt is None or not re.search(exempt, kernel["instance"]):
                found.append(f"{name} has no 128-bit load or store")
    names = {kernel["kernel"] for kernel in kernels}
    found += [f"there is no kernel {name}: take it off the lists in {pathlib.Path(__file__).name}" for name in sorted({*STACKS, *WIDE} - names)]
    return found


def table(module, arch, kernels, compiler):
    def span(numbers):
        return f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"

    print(f"sm_{arch}, {compiler}: {len(kernels)} kernels of {len(by_name(kernels))} names.\n")
    print("| kernel | instances | registers | stack | spills | shared | 128-bit loads | 128-bit stores |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, group in by_name(kernels).items():
        print(f"| {name} | {len(group)} | {span([k['registers'] for k in group])} | {max(k['stack'] for k in group)} | {sum(k['spills'] for k in group)}"
              f" | {max(k['shared'] for k in group)} | {sum(k['load_128'] for k in group)} | {sum(k['store_128'] for k in group)} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("module", type=pathlib.Path, help="libdlrun_cuda.so")
    p.add_argument("--arch", type=int, metavar="NUMBER", help="the architecture (90, else the newest)")
    how = p.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="a list with an object for each kernel")
    how.add_argument("--check", action="store_true", help="only what breaks a promise")
    a = p.parse_args()
    arch, kernels = read(a.module, a.arch)
    if a.json:
        return print(json.dumps(kernels, indent=1))
    if a.check:
        found = broken(kernels)
        print("\n".join(found) or f"{len(kernels)} kernels of sm_{arch} keep the promises")
        sys.exit(1 if found else 0)
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    release = re.search(r"V([\d.]+)", output(nvcc, "--version")) if os.path.exists(nvcc) else None
    table(a.module, arch, kernels, f"nvcc {release[1]}" if release else "an unknown compiler")


if __name__ == "__main__":
    main()
