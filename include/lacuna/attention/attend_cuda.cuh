#pragma once
#include <lacuna/attention/attend_backend.hpp>
#include <lacuna/attention/sparse_attention.hpp>
#include <lacuna/exec/cuda_executor.cuh>
#ifdef LACUNA_HAS_SM90A
#include <lacuna/kernels/sm90/launch_prefill.cuh>
#endif

namespace lacuna {

/// Bodies on a GPU: the Hopper prefill kernel where it covers the call, else the portable body, and the plan says why.
template <>
struct attend_backend<cuda_executor> {
  enum body : int { portable, sm90_prefill };

  /// One list for 128 rows fills the prefill kernel's tile where no group of heads does.
  static int static_tile_rows(cuda_executor const& exec, attention_shape const& s) {
    return exec.target() == target::sm90a && s.group() == 1 ? 128 : 64;
  }

  template <class Config, class Kv>
  static body_choice choose(cuda_executor const& exec, body_request const& r) {
    std::string const why_not = why_not_sm90<Config, Kv>(exec, r);
#ifdef LACUNA_HAS_SM90A
    if (why_not.empty())
      return {"sm90 attend_prefill", "Hopper, 16-bit elements, head dim 64 or 128, spans only", sm90_prefill,
              sm90::prefill_workspace_bytes(r.layout, r.shape)};
#endif
    return {r.splits > 1 ? "attend_row + merge_rows" : "attend_row", detail::concat("portable body: ", why_not), portable};
  }

  template <class Config, class Args>
  static status attend(cuda_executor const& exec, attention_plan const& plan, Args const& args, attend_parts const& parts,
                       std::byte* workspace) {
#ifdef LACUNA_HAS_SM90A
    if constexpr (covered<Config>)
      if (plan.body_id() == sm90_prefill) {
        if constexpr (contiguous<Config, decltype(args.kv)>)
          return sm90::launch_prefill<Config::key_dim>(exec, args, plan.layout(), workspace);
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
  static constexpr bool covered = covered_element<Config>&& covered_dims<Config>&& given_turns<Config>;
  template <class Config, class Kv>
  static constexpr bool contiguous = std::is_same_v<Kv, contiguous_kv<typename Config::element>>;

  /// Empty if the Hopper prefill kernel covers the plan.
  template <class Config, class Kv>
  static std::string why_not_sm90(cuda_executor const& exec, body_request const& r) {
    if (exec.target() != target::sm90a) return "no tensor-core body is built for this GPU";
    if (!covered_element<Config>)
      return detail::concat("elements are ", element_name<typename Config::element>, "; the Hopper body takes bf16 and f16");
    if (!covered_dims<Config>)
      return detail::concat("head dims are ", Config::key_dim, " and ", Config::value_dim, "; the Hopper body takes 64 or 128 for both");
    if (!given_turns<Config>) return "queries and keys turn as they are read; the Hopper body takes turned ones";
    if (!contiguous<Config, Kv>) return "the plan is for another reader of keys and values; the Hopper body takes contiguous ones";
    if (r.splits > 1) return "decode splits rows; the Hopper body does not";
    if (r.layout.capacity.columns > 0) return "the index has columns; the Hopper body reads spans";
    return "";
  }
};

}  // namespace lacuna
