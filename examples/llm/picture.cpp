#include "picture.hpp"

#include <algorithm>
#include <cmath>

#include "label.hpp"

namespace llm {
namespace {

constexpr int most_heads = 4;
constexpr int panel_cells = 200;  // most cells along a panel's side; a cell is one pixel
constexpr int gap = 8;
constexpr int weight_levels = 24;
constexpr int share_levels = 9;
constexpr std::uint8_t background = 0;
constexpr std::uint8_t ink = 1;
constexpr int first_shade = 2;

colour mix(colour a, colour b, double part) {
  auto const between = [part](std::uint8_t from, std::uint8_t to) {
    return static_cast<std::uint8_t>(std::lround(from + (to - from) * part));
  };
  return {between(a.red, b.red), between(a.green, b.green), between(a.blue, b.blue)};
}

/// Background, ink, then shades by weight and by share kept.
std::vector<colour> make_palette() {
  std::vector<colour> palette{{255, 255, 255}, {40, 40, 40}};
  for (int weight = 0; weight < weight_levels; ++weight) {
    double const dark = static_cast<double>(weight) / (weight_levels - 1);
    for (int share = 0; share < share_levels; ++share) {
      colour const kept = mix({255, 226, 160}, {130, 10, 20}, dark);
      colour const left_out = mix({232, 236, 242}, {10, 50, 150}, dark);
      palette.push_back(mix(left_out, kept, static_cast<double>(share) / (share_levels - 1)));
    }
  }
  return palette;
}

std::uint8_t shade(float weight, float share) {
  double const level = (std::log10(std::max(static_cast<double>(weight), 1e-9)) + 1) / 2.5;  // a tenth of even attention to 30 times
  int const dark = static_cast<int>(std::clamp(level, 0.0, 1.0) * (weight_levels - 1));
  int const kept = static_cast<int>(std::lround(std::clamp(share, 0.0F, 1.0F) * (share_levels - 1)));
  return static_cast<std::uint8_t>(first_shade + dark * share_levels + kept);
}

std::int64_t cell_of(attention_tensors const& t) { return std::max<std::int64_t>((t.keys() + panel_cells - 1) / panel_cells, 1); }

/// One query's softmax weights over the keys up to its position.
void softmax_row(attention_tensors const& t, std::int64_t query, int head, std::vector<float>& weights) {
  auto const visible = static_cast<std::size_t>(t.keys() - t.queries() + query + 1);
  int const kv_head = head / (t.query_heads() / t.kv_heads());
  float const* const q = t.q.row(0, query, head);
  float const scale = 1 / std::sqrt(static_cast<float>(t.head_size()));
  weights.resize(visible);
  for (std::size_t key = 0; key < visible; ++key) {
    float const* const k = t.k.row(0, static_cast<std::int64_t>(key), kv_head);
    float partial[8] = {};
    for (int i = 0; i < t.head_size(); i += 8) {
      for (int lane = 0; lane < 8; ++lane) partial[lane] += q[i + lane] * k[i + lane];
    }
    float dot = 0;
    for (float const part : partial) dot += part;
    weights[key] = dot * scale;
  }
  float const largest = *std::max_element(weights.begin(), weights.end());
  float sum = 0;
  for (float& weight : weights) sum += weight = std::exp(weight - largest);
  for (float& weight : weights) weight /= sum;
}

}  // namespace

std::vector<float> attention_cells(lacuna::host_executor const& exec, attention_tensors const& t, int head, std::int64_t cell) {
  auto const rows = (t.queries() + cell - 1) / cell;
  auto const columns = (t.keys() + cell - 1) / cell;
  std::vector<float> cells(static_cast<std::size_t>(rows * columns));
  exec.for_each(rows, 0, [&](std::int64_t row, std::byte*) {
    std::vector<float> weights;
    std::vector<float> pairs(static_cast<std::size_t>(columns));
    float* const sums = cells.data() + row * columns;
    for (auto query = row * cell; query < std::min((row + 1) * cell, t.queries()); ++query) {
      softmax_row(t, query, head, weights);
      for (std::size_t key = 0; key < weights.size(); ++key) {
        auto const column = key / static_cast<std::size_t>(cell);
        sums[column] += weights[key] * static_cast<float>(weights.size());
        pairs[column] += 1;
      }
    }
    for (std::int64_t column = 0; column < columns; ++column) sums[column] /= std::max(pairs[static_cast<std::size_t>(column)], 1.0F);
  });
  return cells;
}

picture::picture(lacuna::host_executor const& exec, std::vector<pattern_spec> patterns)
    : exec_(exec),
      attention_(exec),
      patterns_(std::move(patterns)),
      image_{.width = 0, .height = 0, .palette = make_palette(), .indices = {}} {
  auto const is_dense = [](pattern_spec const& p) { return p.kind == pattern_kind::dense; };
  bool const all_dense = std::all_of(patterns_.begin(), patterns_.end(), is_dense);
  if (!all_dense) std::erase_if(patterns_, is_dense);  // it keeps everything: shown only if it is alone
}

void picture::draw(int layer, attention_tensors const& tensors) {
  int const heads = std::min(most_heads, tensors.query_heads());
  auto const cell = cell_of(tensors);
  int const width = static_cast<int>((tensors.keys() + cell - 1) / cell);
  int const height = static_cast<int>((tensors.queries() + cell - 1) / cell);
  int const row_height = label_height + height + gap;
  int const patterns = static_cast<int>(patterns_.size());
  image_.width = gap + heads * (width + gap);
  image_.height = gap + label_height + gap + patterns * row_height;
  image_.indices.assign(static_cast<std::size_t>(image_.width) * static_cast<std::size_t>(image_.height), background);
  for (int column = 0; column < heads; ++column) {
    int const head = heads == 1 ? 0 : column * (tensors.query_heads() - 1) / (heads - 1);
    int const x = gap + column * (width + gap);
    draw_label(image_, x, gap, "layer " + std::to_string(layer) + " head " + std::to_string(head), ink);
    auto const weights = attention_cells(exec_, tensors, head, cell);
    for (int row = 0; row < patterns; ++row) {
      int const y = gap + label_height + gap + row * row_height;
      auto const& pattern = patterns_[static_cast<std::size_t>(row)];
      draw_label(image_, x, y, text_of(pattern_of_head(pattern, head)), ink);
      draw_panel(x, y + label_height, attention_.draw(pattern, tensors, head, cell), weights);
    }
  }
}

void picture::draw_panel(int x, int y, visited_cells const& kept, std::vector<float> const& weights) {
  for (std::int64_t row = 0; row < kept.rows; ++row) {
    for (std::int64_t column = 0; column <= kept.columns - kept.rows + row; ++column) {
      auto const i = static_cast<std::size_t>(row * kept.columns + column);
      image_.set(x + static_cast<int>(column), y + static_cast<int>(row), shade(weights[i], kept.share[i]));
    }
  }
}

std::string picture::png() const { return image_.indices.empty() ? std::string() : png_of(image_); }

}  // namespace llm
