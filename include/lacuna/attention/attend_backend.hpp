#pragma once
#include <lacuna/attention/attention_plan.hpp>
#include <lacuna/exec/host_executor.hpp>
#include <lacuna/kernels/attend_row.hpp>
#include <lacuna/kernels/host/host_attend.hpp>

namespace lacuna {

/// Which bodies an executor attends with: chosen when planning, launched when running. choose<Config, Kv> is told the reader of keys and
/// values that runs will bring. Every executor has one:
/// attend_backend<host_executor> is here, the one of cuda_executor comes with lacuna/cuda.cuh, and an executor of one's own may take
/// portable_backend.
template <class Exec>
struct attend_backend;

/// The portable body on any executor.
struct portable_backend {
  /// Query tokens that share a list of a pattern that is exact at any tile size.
  template <class Exec>
  static int static_tile_rows(Exec const&, attention_shape const&) {
    return 64;
  }

  template <class Config, class Kv, class Exec>
  static body_choice choose(Exec const&, body_request const& r) {
    return {"attend_row", r.splits > 1 ? "portable body, parts joined by merge_rows" : "portable body"};
  }

  template <class Config, class Exec, class Args>
  static status attend(Exec const& exec, attention_plan const&, Args const& args, attend_parts const& parts, std::byte*) {
    attend_row<Args> const body{args, parts};
    if (status s = exec.launch({body.blocks(), 128}, body); !s || parts.splits == 1) return s;
    merge_rows<Args> const merge{args, parts};
    return exec.launch({merge.blocks(), 128}, merge);
  }
};

template <>
struct attend_backend<host_executor> {
  static int static_tile_rows(host_executor const&, attention_shape const&) { return 64; }

  template <class Config, class Kv>
  static body_choice choose(host_executor const&, body_request const& r) {
    char const* const set = host_isa_name(best_host_isa());
    host_body const kind = host_body_for(r.shape, r.layout.tile_rows, r.layout.heads);
    bool const few = kind == host_body::stream;
    return {
        detail::concat("host ", few ? "attend_decode" : "attend_tiles", ", ", set),
        detail::concat(few ? "few query rows: keys stream past them" : "many query rows: tiles of products", "; the processor has ", set),
        static_cast<int>(kind)};
  }

  template <class Config, class Args>
  static status attend(host_executor const& exec, attention_plan const& plan, Args const& args, attend_parts const& parts, std::byte*) {
    return host_attend(exec, args, static_cast<host_body>(plan.body_id()), parts);
  }
};

}  // namespace lacuna
