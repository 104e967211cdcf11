#!/usr/bin/env python3
"""Times cuDNN and FlashAttention-2 through PyTorch on the dense cases of the targets: compare.py [id...]

Prints a line a case and peer: id, peer, milliseconds, TFLOP/s or TB/s. Same shapes, data of the same kind, and method as ours: medians of CUDA
events after two runs that are not counted; decode with the L2 cache flushed before each run. A peer that refuses a case is named so.
"""
import statistics
import sys

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:
    sys.exit("compare.py needs PyTorch")

# id: queries, keys, query heads, KV heads, head dim, runs
CASES = {
    "A1": (32768, 32768, 32, 8, 128, 9),
    "A1b": (32768, 32768, 28, 4, 128, 5),
    "A1c": (32768, 32768, 9, 3, 64, 5),
    "A2": (131072, 131072, 32, 8, 128, 3),
    "A3": (1, 1 << 20, 32, 8, 128, 11),
    "A3-28:4": (1, 1 << 20, 28, 4, 128, 11),
    "A3-9:3": (1, 1 << 20, 9, 3, 64, 11),
}
PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2": SDPBackend.FLASH_ATTENTION}


def tensor(tokens, heads, dim):
    """[1, heads, tokens, dim] over memory laid out [tokens, heads, dim], as ours is."""
    return torch.randn(1, tokens, heads, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)


def median_ms(run, runs, before):
    times = []
    for i in range(runs + 2):
        before()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def measure(name, backend, queries, keys, heads, kv_heads, dim, runs):
    """Milliseconds, and whether the peer read the shared KV heads itself; where it cannot, they are repeated before it is timed."""
    q, k, v = tensor(queries, heads, dim), tensor(keys, kv_heads, dim), tensor(keys, kv_heads, dim)
    other = torch.empty(512 << 20, dtype=torch.uint8, device="cuda") if queries == 1 else None
    before = other.zero_ if other is not None else lambda: None
    failure = None
    for grouped in (True, False):
        if not grouped:
            k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
        try:
            with torch.no_grad(), sdpa_kernel(backend):
                run = lambda: scaled_dot_product_attention(q, k, v, is_causal=queries > 1, enable_gqa=grouped)
                return median_ms(run, runs, before), grouped
        except RuntimeError as error:
            failure = error
    raise failure


def main():
    asked = sys.argv[1:] or CASES
    if not torch.cuda.is_available():
        sys.exit("compare.py needs a GPU")
    for case in (c for c in CASES if c in asked):
        queries, keys, heads, kv_heads, dim, runs = CASES[case]
        for name, backend in PEERS.items():
            try:
                ms, grouped = measure(name, backend, *CASES[case])
            except RuntimeError as error:
                print(f"{case} {name} refused: {str(error).splitlines()[0]}", flush=True)
                continue
            finally:
                torch.cuda.empty_cache()
            if queries > 1:
                rate, unit = 4 * dim * heads * queries * (queries + 1) / 2 / ms * 1e-9, "TFLOP/s"
            else:
                rate, unit = 4 * dim * kv_heads * keys / ms * 1e-9, "TB/s"
            print(f"{case} {name} {ms:.4f} ms {rate:.2f} {unit}{'' if grouped else ' (KV heads repeated)'}", flush=True)


main()
