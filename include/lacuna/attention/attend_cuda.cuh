#pragma once
#include <lacuna/attention/attend_backend.hpp>
#include <lacuna/attention/sparse_attention.hpp>
#include <lacuna/exec/cuda_executor.cuh>
#include <lacuna/kernels/sm80/launch_decode.cuh>
#include <lacuna/kernels/sm80/launch_prefill.cuh>
#ifdef LACUNA_HAS_SM90A
#include <lacuna/kernels/sm90/launch_prefill.cuh>
#endif

namespace lacuna {

/// Bodies on a GPU: a tensor-core kernel where one covers the call, the Hopper one before the one of sm_80, else the portable body. The
/// plan says which, and why.
template <>
struct attend_backend<cuda_executor> {
  enum body : int { portable, sm90_prefill, sm80_prefill, sm80_decode };

  /// One list for 128 rows fills the prefill kernels' tile where no group of heads does.
  static int static_tile_rows(cuda_executor const& exec, attention_shape const& s) {
    return exec.target() != target::portable_cuda && s.group() == 1 ? 128 : 64;
  }

  template <class Config, class Kv>
  static body_choice choose(cuda_executor const& exec, body_request const& r) {
    if (r.phase == attend_phase::decode) return choose_decode<Config, Kv>(exec, r);
    std::string const not_sm80 = why_not_sm80<Config>(exec);
    if (!not_sm80.empty()) return portable_body(r, not_sm80);
    std::string const not_sm90 = why_not_sm90<Config, Kv>(exec, r);
#ifdef LACUNA_HAS_SM90A
    if (not_sm90.empty())
      return {"sm90 attend_prefill",
              detail::concat("Hopper, 16-bit elements, head dim 64 or 128, ",
                             r.layout.capacity.columns > 0 ? "spans, and columns gathered once a head" : "spans only",
                             sm90::list_joining::of(r.layout, r.shape).reason()),
              sm90_prefill, sm90::prefill_workspace_bytes(r.layout, r.shape)};
#endif
    return {"sm80 attend_prefill", detail::concat("16-bit elements on tensor cores; ", not_sm90), sm80_prefill};
  }

  template <class Config, class Args>
  static status attend(cuda_executor const& exec, attention_plan const& plan, Args const& args, attend_parts const& parts,
                       std::byte* workspace) {
    if (args.tree && (plan.body_id() == sm80_prefill || plan.body_id() == sm90_prefill))
      return refuse("this plan runs ", plan.body(), ", which takes no tree of queries; plan_decode's bodies do");
    if constexpr (covered_sm80<Config>) {
      if (plan.body_id() == sm80_prefill) return sm80::launch_prefill<Config::key_dim, Config::value_dim>(exec, args);
      if (plan.body_id() == sm80_decode)
        return sm80::launch_decode<Config::key_dim, Config::value_dim>(exec, args, plan.layout(), plan.shape(), workspace);
    }
#ifdef LACUNA_HAS_SM90A
    if constexpr (covered<Config>)
      if (plan.body_id() == sm90_prefill) {
        if constexpr (contiguous<Config, decltype(args.kv)>)
          return sm90::launch_prefill<Config::key_dim, may_have_columns<typename Config::pattern>>(exec, args, plan.layout(), plan.shape(),
                                                                                                   workspace);
        else
          return refuse("this plan runs ", plan.body(), ", which reads contiguous keys and values only; another reader came");
      }
#endif
    return portable_backend::attend<Config>(exec, plan, args, parts, workspace);
  }

 private:
  template <class Config>
  static constexpr bool covered_element =
      std::is_same_v<typename Config::element, bfloat16> || std::is_same_v<typename Config::element, float16>;
  template <class Config>
  static constexpr bool covered_dims = Config::key_dim == Config::value_dim && (Config::key_dim == 64 || Config::key_dim == 128);
  template <class Config>
  static constexpr bool given_turns = std::is_same_v<typename Config::rope, given_rope>;
  template <class Config>
  static constexpr bool covered_sm80_dims = Config::key_dim % 16 == 0 && Config::value_dim % 16 == 0;
  template <class Config>
  static constexpr bool covered_sm80 = covered_element<Config>&& covered_sm80_dims<Config>&& given_turns<Config>;
  template <class Config>
  static constexpr bool covered = covered_element<Config>&& covered_dims<Config>&& given_turns<Config>;
  template <class Config, class Kv>
  static constexpr bool contiguous = std::is_same_v<Kv, contiguous_kv<typename Config::element>>;

  static body_choice portable_body(body_request const& r, std::string const& why_not) {
    return {r.splits > 1 ? "attend_row + merge_rows" : "attend_row", detail::concat("portable body: ", why_not), portable};
  }

  template <class Config, class Kv>
  static body_choice choose_decode(cuda_executor const& exec, body_request const& r) {
    std::string const why_not = why_not_sm80<Config>(exec);
    if (!why_not.empty()) return portable_body(r, why_not);
    if constexpr (covered_sm80<Config>) {
      using args_type = attend_args<typename Config::element, Kv, typename Config::mask, typename Config::rope>;
      return {"sm80 attend_decode", "decode, 16-bit elements: rows that share a list share one fetch of its keys, lists are cut into parts",
              sm80_decode, sm80::decode_workspace_bytes<args_type, Config::key_dim, Config::value_dim>(r.layout, r.shape), true};
    }
    return portable_body(r, why_not);
  }

  /// Empty if the sm_80 kernels cover the plan.
  template <class Config>
  static std::string why_not_sm80(cuda_executor const& exec) {
    if (exec.target() == target::portable_cuda) return "no tensor-core body is built for this target";
    if (!covered_element<Config>)
      return detail::concat("elements are ", element_name<typename Config::element>, "; tensor-core bodies take bf16 and f16");
    if (!covered_sm80_dims<Config>)
      return detail::concat("head dims are ", Config::key_dim, " and ", Config::value_dim, "; tensor-core bodies take multiples of 16");
    if (!given_turns<Config>) return "queries and keys turn as they are read; tensor-core bodies take turned ones";
    return "";
  }

  /// Empty if the Hopper prefill kernel covers a plan that the one of sm_80 covers.
  template <class Config, class Kv>
  static std::string why_not_sm90(cuda_executor const& exec, body_request const& r) {
    if (exec.target() != target::sm90a) return "the target is not Hopper";
    if (!covered_dims<Config>)
      return detail::concat("head dims are ", Config::key_dim, " and ", Config::value_dim, "; the Hopper body takes 64 or 128 for both");
    if (!contiguous<Config, Kv>) return "the plan is for another reader of keys and values; the Hopper body takes contiguous ones";
    if (r.layout.capacity.columns > 0 && !may_have_columns<typename Config::pattern>)
      return "the index has columns and the pattern says it has none";
    bool const shared = r.layout.heads <= r.shape.kv_heads;
    int const rows = r.layout.tile_rows * (shared ? r.shape.group() : 1);
    if (r.layout.capacity.columns > 0 && rows < 128)
      return detail::concat("lists with columns serve ", rows, " rows; the Hopper body shares a fetch among 128 and is slower with fewer");
    if (r.layout.heads <= r.shape.kv_heads && r.shape.group() > 128)
      return detail::concat(r.shape.group(), " heads share a list; the Hopper body packs at most 128");
    return "";
  }
};

}  // namespace lacuna
