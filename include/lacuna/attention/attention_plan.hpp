#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/exec/executor.hpp>
#include <lacuna/kernels/attend_args.hpp>

#include <string>

namespace lacuna {

/// Which call a plan is for: many queries whose rows are not split, or few queries over many keys.
enum class attend_phase { prefill, decode };

/// What a backend chooses a body by, beside the configuration and the type that reads keys and values.
struct body_request {
  attention_shape shape;
  index_layout layout;
  attend_phase phase = attend_phase::prefill;
  int splits = 1;  // parts of a row at most
};

/// The kernel body that a plan runs, and why this one.
struct body_choice {
  std::string name, reason;
  int id = 0;                       // the backend's own
  std::size_t workspace_bytes = 0;  // that the body needs besides index and parts
  bool joins_parts = false;         // the body splits rows and joins their parts itself, in its own workspace
};

/// What a run will do, fixed from capacities: geometry of the index, memory, and the kernel body. Immutable; share it between threads
/// and streams, with a workspace for each run in flight.
class attention_plan {
 public:
  attention_shape const& shape() const { return shape_; }
  index_layout const& layout() const { return layout_; }
  lacuna::target target() const { return target_; }

  /// Most parts a row's keys are split into; 1 for prefill and for a body that splits rows itself.
  int splits() const { return splits_; }

  /// Bytes of workspace that a run needs, aligned to 256.
  std::size_t workspace_bytes() const { return bytes_; }

  /// Name of the kernel body that attends, and why it was chosen.
  std::string const& body() const { return body_.name; }
  std::string const& reason() const { return body_.reason; }
  int body_id() const { return body_.id; }

  /// The index inside a workspace: what build() fills and attend() reads.
  sparse_index index(std::byte* workspace) const { return make_index(layout_, workspace); }
  std::byte* pattern_workspace(std::byte* workspace) const { return workspace + pattern_at_; }
  std::byte* body_workspace(std::byte* workspace) const { return workspace + body_at_; }
  attend_parts parts(std::byte* workspace) const {
    if (splits_ == 1) return {};
    index_t const rows = shape_.batch * shape_.query_heads * shape_.queries * splits_;
    auto* const floats = reinterpret_cast<float*>(workspace + parts_at_);
    return {splits_, split_keys, floats, floats + rows * shape_.value_dim};
  }

  static constexpr index_t split_keys = 2048;  // of one part: K and V of 64 dims in fp32 are 1 MB, a fair share of an L2

 private:
  template <class>
  friend class sparse_attention;
  attention_plan() = default;

  attention_shape shape_;
  index_layout layout_;
  lacuna::target target_ = lacuna::target::host;
  int splits_ = 1;
  std::size_t pattern_at_ = 0, body_at_ = 0, parts_at_ = 0, bytes_ = 0;
  body_choice body_;
  std::string element_;  // its name
};

}  // namespace lacuna
