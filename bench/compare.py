#!/usr/bin/env python3
"""Times cuDNN's and FlashAttention-2's dense attention through PyTorch, for the targets that have a dense peer.

bench/compare.py [--json FILE] [id...]

bf16, head dim 128, random data, medians of CUDA-event times; decode cases flush the L2 cache before each run. Prints a line a case and peer.
Needs PyTorch with CUDA; ends with code 77 where there is none. PEERS holds the published figures of targets that have no peer here.
"""
import argparse
import json
import statistics
import sys

# Milliseconds on an H200 with the peers' public code: used where the peer cannot be run.
PEERS = {
    "A1": {"cuDNN": 12.95, "FA2": 25.6},
    "A2": {"cuDNN": 246, "FA2": 426},
    "A3": {"cuDNN": 1.07},
    "M1": {"MInference": 262},
    "M2": {"MInference": 44.6},
    "M3a": {"MInference": 380},
    "H2": {"InfiniteHiP": 21.3},
    "H3": {"InfiniteHiP": 0.050},
    "I2": {"InfLLM-V2": 77},
}

# queries, keys, query heads, KV heads, timed runs.
CASES = {
    "A1": (32768, 32768, 32, 8, 9),
    "A2": (131072, 131072, 32, 8, 3),
    "A3": (1, 1 << 20, 32, 8, 11),
}
DIM = 128


def times(torch, run, repeats, flush):
    def once():
        if flush is not None:
            flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    for _ in range(2):
        once()
    return statistics.median(once() for _ in range(repeats))


def tensor(torch, tokens, heads):
    return torch.randn(1, tokens, heads, DIM, device="cuda", dtype=torch.bfloat16).transpose(1, 2)


def measure(torch, case, backend):
    queries, keys, heads, kv_heads, repeats = CASES[case]
    q, k, v = (tensor(torch, queries, heads), tensor(torch, keys, kv_heads), tensor(torch, keys, kv_heads))
    flush = torch.empty(1 << 29, dtype=torch.int8, device="cuda") if queries == 1 else None

    def run():
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=queries > 1, enable_gqa=True)

    with torch.nn.attention.sdpa_kernel(backend):
        return times(torch, run, repeats, flush)


def run_peers(torch, wanted):
    """{id: {peer: milliseconds}} of what could be run."""
    backend = torch.nn.attention.SDPBackend
    found = {}
    for case in (c for c in CASES if c in wanted):
        for peer, kind in (("cuDNN", backend.CUDNN_ATTENTION), ("FA2", backend.FLASH_ATTENTION)):
            try:
                found.setdefault(case, {})[peer] = measure(torch, case, kind)
            except RuntimeError as error:
                print(f"{case} {peer}: refused: {str(error).splitlines()[0]}", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("ids", nargs="*")
    chosen = parser.parse_args()
    try:
        import torch
        import torch.nn.attention
    except ImportError:
        print("compare: no PyTorch here", file=sys.stderr)
        sys.exit(77)
    if not torch.cuda.is_available():
        print("compare: PyTorch sees no GPU", file=sys.stderr)
        sys.exit(77)
    found = run_peers(torch, chosen.ids or list(CASES))
    for case, peers in found.items():
        for peer, ms in peers.items():
            print(f"{case:5} {ms:9.3f} ms  {peer}, PyTorch {torch.__version__}")
    if chosen.json:
        with open(chosen.json, "w") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main()
