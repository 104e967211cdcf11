#pragma once

namespace lacuna {

/// Heads whose rows stand side by side because they share a list and a KV head, or single heads where every query head has a list.
struct host_units {
  int count, group;

  template <class Args>
  explicit host_units(Args const& args) {
    bool const shared = args.index.heads <= args.shape.kv_heads;
    count = shared ? args.shape.kv_heads : args.shape.query_heads;
    group = args.shape.query_heads / count;
  }
};

}  // namespace lacuna
