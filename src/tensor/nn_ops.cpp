// Convolution, pooling, normalisation, dropout, attention, resizing: composites with no kernel of their own.
// Windows are Skew over an Expand, so a convolution's gradients come out of those two ops' rules.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "lathe/modes.h"
#include "lathe/unsaid_mode.h"
#include "tensor/autocast.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

using Sizes = std::vector<std::int64_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Sizes per_axis(const Ints& given, std::int64_t axes, std::string_view op, std::string_view what) {
  if (given.size() == 1) return Sizes(at(axes), given[0]);
  if (static_cast<std::int64_t>(given.size()) == axes) return given.values();
  throw UserError(op, fmt::format("{} numbers for {}, there are {} spatial axes", given.size(), what, axes));
}

// Low and high padding of each spatial axis. Twice as many numbers as axes are pairs from the last axis on.
std::vector<std::pair<std::int64_t, std::int64_t>> paddings(const Ints& given, std::int64_t axes,
                                                            std::string_view op) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  if (static_cast<std::int64_t>(given.size()) == 2 * axes && axes > 0 && given.size() > 1) {
    for (std::int64_t i = axes; i-- > 0;) out.emplace_back(given[at(2 * i)], given[at(2 * i + 1)]);
    return out;
  }
  for (std::int64_t p : per_axis(given, axes, op, "padding")) out.emplace_back(p, p);
  return out;
}

Tensor pad_spatial(const Tensor& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& padding,
                   Number value = 0) {
  std::vector<std::pair<Size, Size>> all(at(x.ndim()) - padding.size(), {0, 0});
  for (auto [low, high] : padding) all.emplace_back(low, high);
  return x.pad(all, value);
}

// One number for each channel, beside (batch, channels, ...).
Tensor of_channels(const Tensor& bias, std::int64_t axes) {
  Shape channel(at(axes), Size(1));
  channel[1] = bias.numel();
  return bias.reshape(channel);
}

void check_positive(const Sizes& values, std::string_view op, std::string_view what) {
  for (std::int64_t v : values)
    if (v <= 0) throw UserError(op, fmt::format("{} {} is not positive", what, v));
}

Ints last_axes(std::int64_t count) {
  Sizes axes;
  for (std::int64_t i = -count; i < 0; ++i) axes.push_back(i);
  return axes;
}

}  // namespace

Tensor Tensor::conv2d(const Tensor& weight, const Tensor* bias, const ConvOptions& options) const {
  Scope scope;
  check_same_device("conv2d", *this, weight);
  if (AutocastScope::active()) {
    const Tensor x = lowered(*this), w = lowered(weight);
    if (x.dtype() != dtype() || w.dtype() != weight.dtype()) return x.conv2d(w, bias, options);
  }
  const std::int64_t axes = weight.ndim() - 2, groups = options.groups;
  if (axes < 0 || ndim() != weight.ndim())
    throw UserError("conv2d", fmt::format("input {} and weight {} have different numbers of axes",
                                          to_string(shape()), to_string(weight.shape())))
        .help("input is (batch, channels, spatial...), weight (out, in / groups, kernel...)");
  const std::int64_t in = size(1), out = weight.size(0), in_group = weight.size(1);
  if (groups <= 0 || in != in_group * groups || out % groups != 0)
    throw UserError(
        "conv2d", fmt::format("input {} has {} channels, weight {} takes {} in {} groups", to_string(shape()),
                              in, to_string(weight.shape()), in_group, groups))
        .help("channels are axis 1 of the input: images with channels last need permute(0, 3, 1, 2)");
  Sizes kernel;
  for (std::int64_t i = 0; i < axes; ++i) kernel.push_back(weight.size(2 + i));
  Sizes stride = per_axis(options.stride, axes, "conv2d", "stride"),
        dilation = per_axis(options.dilation, axes, "conv2d", "dilation");
  check_positive(stride, "conv2d", "stride");
  check_positive(dilation, "conv2d", "dilation");
  DataType common = least_upper_dtype(dtype(), weight.dtype()), wide = sum_accumulator(common);
  Tensor x = pad_spatial(cast(wide), paddings(options.padding, axes, "conv2d"));
  Tensor w = windows(x, kernel, stride, dilation);  // (b, in, o..., k...)
  // (b, groups, out/groups, o..., in/groups, k...)
  const Size batch = size(0);
  Shape grouped{batch, groups, in_group};
  grouped.insert(grouped.end(), w.shape().begin() + 2, w.shape().end());
  Sizes order{0, 1};
  for (std::int64_t i = 0; i < axes; ++i) order.push_back(3 + i);
  order.push_back(2);
  for (std::int64_t i = 0; i < axes; ++i) order.push_back(3 + axes + i);
  Tensor elements = w.reshape(grouped).permute(order).unsqueeze(2);
  Shape factors{1, groups, out / groups};
  factors.insert(factors.end(), at(axes), Size(1));
  factors.push_back(in_group);
  for (std::int64_t k : kernel) factors.push_back(k);
  Tensor product = elements * weight.cast(wide).reshape(factors);
  Axes summed;
  for (std::int64_t i = product.ndim() - 1 - axes; i < product.ndim(); ++i) summed.push_back(i);
  Tensor total = reduce_keep(Op::Add, product, summed).cast(common);
  Shape result{batch, out};
  result.insert(result.end(), w.shape().begin() + 2, w.shape().begin() + 2 + axes);
  total = total.reshape(result);
  return bias == nullptr ? total : total + of_channels(lowered(*bias), total.ndim());
}

Tensor Tensor::conv_transpose2d(const Tensor& weight, const Tensor* bias,
                                const ConvTransposeOptions& options) const {
  Scope scope;
  check_same_device("conv_transpose2d", *this, weight);
  if (AutocastScope::active()) {
    const Tensor x = lowered(*this), w = lowered(weight);
    if (x.dtype() != dtype() || w.dtype() != weight.dtype()) return x.conv_transpose2d(w, bias, options);
  }
  const std::int64_t axes = weight.ndim() - 2, groups = options.groups;
  if (axes < 0 || ndim() != weight.ndim() || groups <= 0 || !(size(1) == weight.size(0)) ||
      size(1).value() % groups != 0)
    throw UserError("conv_transpose2d", fmt::format("input {} does not fit weight {} in {} groups",
                                                    to_string(shape()), to_string(weight.shape()), groups))
        .help("input is (batch, in, spatial...), weight (in, out / groups, kernel...)");
  Sizes stride = per_axis(options.stride, axes, "conv_transpose2d", "stride"),
        dilation = per_axis(options.dilation, axes, "conv_transpose2d", "dilation"),
        extra = per_axis(options.output_padding, axes, "conv_transpose2d", "output_padding");
  check_positive(stride, "conv_transpose2d", "stride");
  check_positive(dilation, "conv_transpose2d", "dilation");
  auto padding = paddings(options.padding, axes, "conv_transpose2d");
  const std::int64_t in = size(1), out_group = weight.size(1);
  // With a stride of one, what is outside counts as zero and the weight is turned around; else every element
  // is multiplied with a whole window, and the windows are added at their positions.
  if (std::all_of(stride.begin(), stride.end(), [](std::int64_t s) { return s == 1; })) {
    Sizes spatial;
    for (std::int64_t i = 0; i < axes; ++i) spatial.push_back(-1 - i);
    Shape grouped{groups, in / groups}, swapped{groups * out_group, in / groups};
    grouped.insert(grouped.end(), weight.shape().begin() + 1, weight.shape().end());
    swapped.insert(swapped.end(), weight.shape().begin() + 2, weight.shape().end());
    Tensor w = (axes > 0 ? weight.flip(spatial) : weight).reshape(grouped).transpose(1, 2).reshape(swapped);
    std::vector<std::pair<std::int64_t, std::int64_t>> around;
    for (std::int64_t i = 0; i < axes; ++i) {
      std::int64_t reach = (weight.size(2 + i).value() - 1) * dilation[at(i)];
      around.emplace_back(reach - padding[at(i)].first, reach - padding[at(i)].second + extra[at(i)]);
    }
    return pad_spatial(*this, around).conv2d(w, bias, {.groups = groups, .dilation = dilation});
  }
  for (std::int64_t i = 0; i < axes; ++i)
    if (size(2 + i) == 0 || weight.size(2 + i) == 0)
      throw UserError("conv_transpose2d", fmt::format("input {} or weight {} has no elements along an axis",
                                                      to_string(shape()), to_string(weight.shape())));
  DataType common = least_upper_dtype(dtype(), weight.dtype()), wide = sum_accumulator(common);
  // (b, groups, in/groups, out/groups, k..., y...), summed over in/groups.
  Shape elements{size(0), groups, in / groups, 1}, factors{1, groups, in / groups, out_group};
  for (std::int64_t i = 0; i < axes; ++i) elements.emplace_back(1), factors.push_back(weight.size(2 + i));
  for (std::int64_t i = 0; i < axes; ++i) elements.push_back(size(2 + i)), factors.emplace_back(1);
  Tensor product = cast(wide).reshape(elements) * weight.cast(wide).reshape(factors);
  Shape channels{size(0), groups * out_group};
  channels.insert(channels.end(), product.shape().begin() + 4, product.shape().end());
  Sizes order{0, 1};  // places before the steps of a window
  for (std::int64_t i = 0; i < 2 * axes; ++i) order.push_back(2 + (i + axes) % (2 * axes));
  Tensor columns = reduce_keep(Op::Add, product, Axes{2}).reshape(channels).permute(order);
  for (std::int64_t i = 0; i < axes; ++i)
    padding[at(i)] = {-padding[at(i)].first, extra[at(i)] - padding[at(i)].second};
  Tensor total = pad_spatial(unskewed_windows(columns, stride, dilation), padding).cast(common);
  return bias == nullptr ? total : total + of_channels(lowered(*bias), total.ndim());
}

namespace {

struct Pool {
  Sizes kernel, stride, dilation;
  std::vector<std::pair<std::int64_t, std::int64_t>> padding;  // as asked
  std::vector<std::pair<std::int64_t, std::int64_t>> reach;    // with what ceil_mode adds
};

Pool pool_of(const Tensor& x, const Ints& kernel, const PoolOptions& options, std::string_view op) {
  const auto axes = static_cast<std::int64_t>(kernel.size());
  if (axes > x.ndim()) throw UserError(op, fmt::format("{} kernel sizes for {}", axes, to_string(x.shape())));
  Pool p;
  p.kernel = kernel.values();
  p.stride = options.stride.empty() ? p.kernel : per_axis(options.stride, axes, op, "stride");
  p.dilation = per_axis(options.dilation, axes, op, "dilation");
  p.padding = paddings(options.padding, axes, op);
  p.reach = p.padding;
  check_positive(p.kernel, op, "kernel size");
  check_positive(p.stride, op, "stride");
  check_positive(p.dilation, op, "dilation");
  for (std::size_t i = 0; i < p.kernel.size() && options.ceil_mode; ++i) {
    std::int64_t n = x.size(-axes + static_cast<std::int64_t>(i)), low = p.padding[i].first,
                 high = p.padding[i].second;
    std::int64_t window = p.dilation[i] * (p.kernel[i] - 1) + 1, room = n + low + high - window;
    std::int64_t outputs = (room + p.stride[i] - 1) / p.stride[i] + 1;
    if ((outputs - 1) * p.stride[i] >= n + low) --outputs;  // the last window must start inside
    p.reach[i].second = std::max(high, (outputs - 1) * p.stride[i] + window - n - low);
  }
  return p;
}

}  // namespace

Tensor Tensor::max_pool2d(const Ints& kernel, const PoolOptions& options) const {
  Scope scope;
  Pool p = pool_of(*this, kernel, options, "max_pool2d");
  return windows(pad_spatial(*this, p.reach, dtypes::min(dtype())), p.kernel, p.stride, p.dilation)
      .max(last_axes(static_cast<std::int64_t>(kernel.size())));
}

std::pair<Tensor, Tensor> Tensor::max_pool2d_with_indices(const Ints& kernel,
                                                          const PoolOptions& options) const {
  Scope scope;
  const auto axes = static_cast<std::int64_t>(kernel.size());
  Pool p = pool_of(*this, kernel, options, "max_pool2d");
  Tensor values = max_pool2d(kernel, options);
  Tensor w = windows(pad_spatial(detach(), p.reach, dtypes::min(dtype())), p.kernel, p.stride, p.dilation);
  // The position of every element within its image; the first that is the maximum counts.
  Size image = 1;
  Shape shape;
  for (std::int64_t i = -axes; i < 0; ++i) {
    image = image * size(i);
    shape.push_back(size(i));
  }
  Tensor place = Tensor::arange(image, {.dtype = dtypes::int32, .device = device()}).reshape(shape);
  constexpr std::int64_t kNone = std::numeric_limits<std::int32_t>::max();
  Tensor places = windows(pad_spatial(place, p.reach, kNone), p.kernel, p.stride, p.dilation);
  Shape column = values.shape();
  column.insert(column.end(), at(axes), Size(1));
  Tensor is_most = w == values.detach().reshape(column);
  if (w.is_floating_point()) is_most = is_most | w.isnan();  // then the maximum is NaN
  Tensor index = is_most.where(places, kNone).min(last_axes(axes));
  return {values, index};
}

Tensor Tensor::max_unpool2d(const Tensor& indices, const Ints& kernel, const PoolOptions& options,
                            std::optional<Shape> output) const {
  Scope scope;
  const auto axes = static_cast<std::int64_t>(kernel.size());
  Sizes stride =
      options.stride.empty() ? kernel.values() : per_axis(options.stride, axes, "max_unpool2d", "stride");
  auto padding = paddings(options.padding, axes, "max_unpool2d");
  Shape spatial;
  for (std::int64_t i = 0; i < axes; ++i)
    spatial.push_back((size(-axes + i) - 1) * stride[at(i)] - 2 * padding[at(i)].first + kernel[at(i)]);
  if (output) spatial = Shape(output->end() - axes, output->end());
  Size image = 1;
  for (const Size& s : spatial) image = image * s;
  Shape result(shape().begin(), shape().end() - axes);
  Shape images = result;
  images.push_back(image);
  result.insert(result.end(), spatial.begin(), spatial.end());
  // Where windows overlap, one element may be the maximum of several: it is there once.
  return Tensor::zeros(images, {.dtype = dtype(), .device = device()})
      .scatter(-1, indices.flatten(-axes, -1), flatten(-axes, -1))
      .reshape(result);
}

Tensor Tensor::avg_pool2d(const Ints& kernel, const PoolOptions& options) const {
  Scope scope;
  const auto axes = static_cast<std::int64_t>(kernel.size());
  Pool p = pool_of(*this, kernel, options, "avg_pool2d");
  Ints over = last_axes(axes);
  auto total = [&](const Tensor& x) {
    return windows(pad_spatial(x, p.reach), p.kernel, p.stride, p.dilation).sum(over);
  };
  Tensor sum = total(*this);
  if (p.reach == p.padding && options.count_include_pad) {
    double count = 1;
    for (std::int64_t k : p.kernel) count *= static_cast<double>(k);
    return sum / count;
  }
  // What counts: the elements, and the padding asked for where count_include_pad; never what ceil_mode added.
  Shape spatial(shape().end() - axes, shape().end());
  Tensor ones = Tensor::ones(spatial, {.dtype = least_upper_float(dtype()), .device = device()});
  if (options.count_include_pad) {
    ones = pad_spatial(ones, p.padding, 1);
    for (std::size_t i = 0; i < p.reach.size(); ++i)
      p.reach[i] = {0, p.reach[i].second - p.padding[i].second};
  }
  return sum / total(ones);
}

Tensor Tensor::layernorm(const Ints& axes, double eps) const {
  Scope scope;
  // In 32 bits, because squares leave the range of half.
  const DataType result = least_upper_float(widened(*this).dtype());
  Tensor x = cast(sum_accumulator(result)), centred = x - x.mean(axes, true);
  return (centred * (centred.square().mean(axes, true) + eps).rsqrt()).cast(result);
}

Tensor Tensor::batchnorm(const Tensor* weight, const Tensor* bias, const Tensor& mean, const Tensor& invstd,
                         const Ints& axes) const {
  Scope scope;
  Axes kept = resolve_axes(axes, ndim(), "batchnorm");
  Shape shape(at(ndim()), Size(1));
  for (std::int64_t a : kept) shape[at(a)] = size(a);
  Tensor x = *this - mean.reshape(shape);
  if (weight != nullptr) x = x * weight->reshape(shape);
  Tensor scaled =
      x * (invstd.ndim() == static_cast<std::int64_t>(kept.size()) ? invstd.reshape(shape) : invstd);
  return bias != nullptr ? scaled + bias->reshape(shape) : scaled;
}

namespace {
thread_local bool training_on = false;
thread_local int scopes_open = 0;
}  // namespace

bool Tensor::training() { return training_on; }
void set_training(bool on) { training_on = on; }
TrainingScope::TrainingScope(bool on) : before_(training_on) {
  training_on = on;
  ++scopes_open;
}
TrainingScope::~TrainingScope() {
  training_on = before_;
  --scopes_open;
}

bool mode_is_said() { return scopes_open > 0; }
Tensor with_unsaid_mode(const Tensor& x) {
  if (mode_is_said() || !grad_enabled()) return x;
  Tensor marked = another_handle(x);
  marked.impl()->weak = x.impl()->weak;
  marked.impl()->unsaid = true;
  return marked;
}
bool has_unsaid_mode(const Tensor& x) { return origin_of(x).unsaid; }

Tensor Tensor::dropout(double p) const {
  Scope scope;
  if (p < 0 || p > 1) throw UserError("dropout", fmt::format("probability {} is outside [0, 1]", p));
  if (p == 0) return *this;
  if (!training_on) return with_unsaid_mode(*this);
  if (p == 1) return zeros_like();
  Tensor keep = rand(shape(), {.dtype = dtypes::float32, .device = device()}) >= p;
  return keep.where(*this * (1 / (1 - p)), zeros_like());
}

Tensor Tensor::scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                            const AttentionOptions& options) const {
  Scope scope;
  if (options.causal && options.mask != nullptr)
    throw UserError("scaled_dot_product_attention", "a mask and causal were both given");
  Tensor k = key, v = value;
  if (options.gqa) {
    std::int64_t heads = size(-3), shared = k.size(-3);
    if (shared == 0 || heads % shared != 0)
      throw UserError("scaled_dot_product_attention",
                      fmt::format("{} query heads over {} key heads", heads, shared));
    k = k.repeat_interleave(heads / shared, -3);
    v = v.repeat_interleave(heads / shared, -3);
  }
  double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(size(-1).value()));
  DataType wide = sum_accumulator(least_upper_dtype(dtype(), k.dtype()));
  Tensor scores = dot(k.transpose(-1, -2), wide) * scale;
  if (options.causal) {
    Tensor row = iota_along(size(-2), 0, 2, dtypes::int32, device()),
           column = iota_along(k.size(-2), 1, 2, dtypes::int32, device());
    scores = (row >= column).where(scores, -INFINITY);
  } else if (options.mask != nullptr) {
    scores =
        options.mask->dtype().is_bool() ? options.mask->where(scores, -INFINITY) : scores + *options.mask;
  }
  return scores.softmax(-1).cast(dtype()).dropout(options.dropout).dot(v);
}

namespace {

// One axis resized: each output is a mix of the two nearest inputs (linear) or one input (nearest).
Tensor resize_axis(const Tensor& x, std::int64_t axis, std::int64_t to, std::string_view mode,
                   bool align_corners) {
  const std::int64_t from = x.size(axis);
  if (from == to) return x;
  DataType wide = sum_accumulator(least_upper_float(x.dtype()));
  Tensor i = Tensor::arange(Size(to), {.dtype = wide, .device = x.device()});
  double ratio = static_cast<double>(from) / static_cast<double>(to);
  Tensor place = mode == "nearest"         ? (i * ratio).floor()
                 : mode == "nearest-exact" ? ((i + 0.5) * ratio).floor()
                 : align_corners
                     ? i * (to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0.0)
                     : (i + 0.5) * ratio - 0.5;
  place = place.clamp(Number(0), Number(from - 1));
  auto rows = [&](const Tensor& index) {
    std::vector<Index> at_axis(static_cast<std::size_t>(axis), Index(Slice{}));
    at_axis.push_back(Index(index));
    return x.getitem(at_axis);
  };
  if (mode != "linear") return rows(place.cast(dtypes::int32));
  Tensor low = place.floor(), high = place.ceil();
  Shape line(static_cast<std::size_t>(x.ndim()), Size(1));
  line[static_cast<std::size_t>(axis)] = to;
  Tensor part = (place - low).reshape(line);
  if (x.dtype() == dtypes::uint8) {  // as images are scaled: weights of 7 bits, rounded along every axis
    const DataType between = dtypes::int16;
    const Tensor first = rows(low.cast(dtypes::int32)).cast(between);
    const Tensor change = rows(high.cast(dtypes::int32)).cast(between) - first;
    const Tensor weight = (part * 128.0 + 0.5).cast(between);
    return (first + ((change * weight + 64) >> 7)).cast(x.dtype());
  }
  Tensor a = rows(low.cast(dtypes::int32)).cast(wide), b = rows(high.cast(dtypes::int32)).cast(wide);
  return a + (b - a) * part;
}

}  // namespace

Tensor Tensor::interpolate(const std::vector<std::int64_t>& size, std::string_view mode,
                           bool align_corners) const {
  Scope scope;
  if (mode != "linear" && mode != "nearest" && mode != "nearest-exact")
    throw UserError("interpolate", fmt::format("mode \"{}\" is unknown", mode))
        .help("linear, nearest or nearest-exact");
  if (static_cast<std::int64_t>(size.size()) > ndim())
    throw UserError("interpolate", fmt::format("{} sizes for {}", size.size(), to_string(shape())));
  Tensor out = *this;
  for (std::size_t i = size.size(); i-- > 0;)
    out = resize_axis(out, ndim() - static_cast<std::int64_t>(size.size() - i), size[i], mode, align_corners);
  return (dtype().is_float() ? out : out.round()).cast(dtype());
}

}  // namespace lathe
