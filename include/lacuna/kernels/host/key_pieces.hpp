#pragma once
#include <lacuna/core/sparse_index.hpp>

namespace lacuna {

/// Neighbouring keys of a list, or of several lists of neighbouring tiles, with the same readers.
struct key_piece {
  index_t begin, end;
  std::uint64_t members = ~std::uint64_t{0};  // bit t: token t of a tile reads them
  std::uint32_t tiles = 1;                    // bit i: list i has them
  bool single = false;                        // a column
  index_t rank = 0;                           // keys of the list before it
};

inline constexpr span whole_list{0, 0x7fffffff};

/// Keys in a row's list, masked or not: what splits count.
inline index_t list_keys(index_row const& row) {
  index_t sum = row.span_keys();
  for (int c = 0; c < row.column_count; ++c) sum += row.reads_column(c);
  return sum;
}

/// Calls visit(piece) for keys [range.begin, range.end) of the list, counted along it, in its order.
template <class Visit>
void for_each_piece(index_row const& row, span range, Visit const& visit) {
  index_t passed = 0;
  for (int e = 0; e < row.span_count() && passed < range.end; ++e) {
    span const keys = row.span_at(e);
    index_t const from = max<index_t>(keys.begin, keys.begin - passed + range.begin);
    index_t const to = min<index_t>(keys.end, keys.begin - passed + range.end);
    if (from < to) visit(key_piece{.begin = from, .end = to, .members = row.members(e), .rank = passed + from - keys.begin});
    passed += keys.size();
  }
  for (int c = 0; c < row.column_count && passed < range.end; ++c)
    if (row.reads_column(c) && passed++ >= range.begin)
      visit(key_piece{.begin = row.columns[c], .end = row.columns[c] + 1, .single = true});
}

/// Lists of neighbouring tiles of one head, walked together: each key is visited once with the set of lists that have it (twice where it
/// is in a span of one list and a column of another). For lists without membership masks.
class joined_lists {
 public:
  static constexpr int most = 8;

  void add(index_row const& row) { row_[count_++] = row; }

  template <class Visit>
  void for_each_piece(Visit const& visit) const {
    cursor at[most];
    for (int i = 0; i < count_; ++i) at[i].start(row_[i]);
    for (;;) {
      std::int32_t begin = nowhere;
      for (int i = 0; i < count_; ++i) begin = min(begin, at[i].now.begin);
      if (begin == nowhere) break;
      key_piece piece{.begin = begin, .end = nowhere, .tiles = 0};
      for (int i = 0; i < count_; ++i) {
        bool const inside = at[i].now.begin == begin;
        piece.end = min<index_t>(piece.end, inside ? at[i].now.end : at[i].now.begin);
        if (inside) piece.tiles |= 1u << i;
      }
      visit(piece);
      for (int i = 0; i < count_; ++i)
        if (piece.tiles >> i & 1) at[i].pass(row_[i], static_cast<std::int32_t>(piece.end));
    }
    for (int c = 0; c < row_[0].column_count; ++c) {
      std::uint32_t tiles = 0;
      for (int i = 0; i < count_; ++i) tiles |= std::uint32_t{row_[i].reads_column(c)} << i;
      if (tiles) visit(key_piece{.begin = row_[0].columns[c], .end = row_[0].columns[c] + 1, .tiles = tiles, .single = true});
    }
  }

  /// Whether reading the lists together fetches at most three quarters of what reading each alone does.
  bool worthwhile() const {
    index_t apart = 0, joined = 0;
    for (int i = 0; i < count_; ++i) apart += list_keys(row_[i]);
    for_each_piece([&](key_piece const& piece) { joined += piece.end - piece.begin; });
    return joined * 4 <= apart * 3;
  }

 private:
  static constexpr std::int32_t nowhere = 0x7fffffff;

  struct cursor {
    int entry = 0;
    span now{nowhere, nowhere};

    void start(index_row const& row) { entry = 0, settle(row); }
    void pass(index_row const& row, std::int32_t end) {
      now.begin = end;
      if (now.begin == now.end) ++entry, settle(row);
    }
    void settle(index_row const& row) {
      for (; entry < row.span_count(); ++entry)
        if (now = row.span_at(entry); now.size() > 0) return;
      now = {nowhere, nowhere};
    }
  };

  int count_ = 0;
  index_row row_[most];
};

}  // namespace lacuna
