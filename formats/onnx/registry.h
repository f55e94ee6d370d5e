// The operators that are read: rows of tables, one file per topic.
#pragma once

#include <span>
#include <string_view>

#include "formats/onnx/call.h"

namespace lathe::onnx {

using OpFunction = Outputs (*)(const Call& call);

enum class Trait : std::uint8_t {
  None,
  Lazy,    // of constants: cheaper computed by its consumer than kept in memory
  Random,  // gives other values on every call
};

struct OpRow {
  const char* name;
  int since;  // the first version of the operator set that this row reads
  OpFunction function;
  Trait trait = Trait::None;
};

struct OpTable {
  const char* domain;
  const char* topic;
  std::span<const OpRow> rows;
};

std::span<const OpTable> op_tables();
// The row of the newest version that is not newer than the file's; null where there is none.
const OpRow* find_op(std::string_view domain, std::string_view name, std::int64_t version);

// One function per topic: its table.
OpTable elementwise_ops();
OpTable activation_ops();
OpTable shape_ops();
OpTable movement_ops();
OpTable index_ops();
OpTable reduce_ops();
OpTable product_ops();
OpTable convolution_ops();
OpTable pool_ops();
OpTable normalization_ops();
OpTable recurrent_ops();
OpTable attention_ops();
OpTable linear_attention_ops();
OpTable quantised_ops();
OpTable control_ops();
OpTable sequence_ops();
OpTable text_ops();
OpTable image_ops();
OpTable signal_ops();
OpTable loss_ops();
OpTable random_ops();
OpTable training_ops();
OpTable ml_ops();
OpTable microsoft_ops();

}  // namespace lathe::onnx
