#include "formats/onnx/registry.h"

#include <array>

namespace lathe::onnx {

std::span<const OpTable> op_tables() {
  static const std::array kTables = {
      elementwise_ops(),      activation_ops(),  shape_ops(),
      movement_ops(),         index_ops(),       reduce_ops(),
      product_ops(),          convolution_ops(), pool_ops(),
      normalization_ops(),    recurrent_ops(),   attention_ops(),
      linear_attention_ops(), quantised_ops(),   control_ops(),
      sequence_ops(),         text_ops(),        image_ops(),
      signal_ops(),           loss_ops(),        random_ops(),
      training_ops(),         ml_ops(),          microsoft_ops(),
  };
  return kTables;
}

const OpRow* find_op(std::string_view domain, std::string_view name, std::int64_t version) {
  const OpRow* best = nullptr;
  for (const OpTable& table : op_tables()) {
    if (table.domain != domain) continue;
    for (const OpRow& row : table.rows)
      if (row.name == name && row.since <= version && (best == nullptr || row.since > best->since))
        best = &row;
  }
  return best;
}

std::vector<SupportedOp> supported_ops() {
  std::vector<SupportedOp> all;
  for (const OpTable& table : op_tables())
    for (const OpRow& row : table.rows) all.push_back({table.domain, row.name, table.topic, row.since});
  return all;
}

}  // namespace lathe::onnx
