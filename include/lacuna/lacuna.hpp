#pragma once
// Everything that compiles without a CUDA toolkit.
#include <lacuna/attention/merge.hpp>
#include <lacuna/attention/sparse_attention.hpp>
#include <lacuna/core/dlpack.hpp>
#include <lacuna/core/visited.hpp>
#include <lacuna/pattern/a_shape.hpp>
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/break_even.hpp>
#include <lacuna/pattern/dense.hpp>
#include <lacuna/pattern/per_head.hpp>
#include <lacuna/pattern/pruned.hpp>
#include <lacuna/pattern/sliding_window.hpp>
#include <lacuna/pattern/tri_shape.hpp>
#include <lacuna/pattern/vertical_slash.hpp>
#include <lacuna/rope/rope_frequencies.hpp>
#include <lacuna/storage/paged.hpp>
#include <lacuna/version.hpp>
