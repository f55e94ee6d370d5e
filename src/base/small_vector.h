// A vector whose first N elements live inside the object. Shapes, argument lists and index lists are nearly
// always short, and allocating for each would dominate the cost of building a graph. Behaves as std::vector
// otherwise, except that moving it may move elements.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace lathe {

template <class T, std::size_t N>
class SmallVector {
  static_assert(N > 0, "use std::vector when nothing is to be kept inline");

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  explicit SmallVector(std::size_t count) { resize(count); }
  SmallVector(std::size_t count, const T& value) { resize(count, value); }
  SmallVector(std::initializer_list<T> list) { append(list.begin(), list.end()); }
  explicit SmallVector(std::span<const T> list) { append(list.begin(), list.end()); }
  template <std::input_iterator It>
  SmallVector(It first, It last) {
    append(first, last);
  }
  SmallVector(const SmallVector& other) { append(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept(std::is_nothrow_move_constructible_v<T>) { take(other); }
  ~SmallVector() { release(); }

  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      clear();
      append(other.begin(), other.end());
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept(std::is_nothrow_move_constructible_v<T>) {
    if (this != &other) {
      release();
      data_ = inline_data();
      capacity_ = N;
      size_ = 0;
      take(other);
    }
    return *this;
  }
  SmallVector& operator=(std::initializer_list<T> list) {
    clear();
    append(list.begin(), list.end());
    return *this;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  bool is_inline() const { return data_ == inline_data(); }

  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  iterator begin() { return data_; }
  iterator end() { return data_ + size_; }
  const_iterator begin() const { return data_; }
  const_iterator end() const { return data_ + size_; }
  auto rbegin() { return std::reverse_iterator(end()); }
  auto rend() { return std::reverse_iterator(begin()); }
  auto rbegin() const { return std::reverse_iterator(end()); }
  auto rend() const { return std::reverse_iterator(begin()); }

  void reserve(std::size_t count) {
    if (count > capacity_) grow(count);
  }
  void clear() {
    std::destroy_n(data_, size_);
    size_ = 0;
  }
  void resize(std::size_t count) {
    shrink_to(count);
    reserve(count);
    std::uninitialized_value_construct_n(data_ + size_, count - size_);
    size_ = static_cast<std::uint32_t>(count);
  }
  void resize(std::size_t count, const T& value) {
    shrink_to(count);
    if (count > size_) {
      const T copy = value;  // `value` may live in the storage about to move
      reserve(count);
      std::uninitialized_fill_n(data_ + size_, count - size_, copy);
      size_ = static_cast<std::uint32_t>(count);
    }
  }
  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) {
      T made(std::forward<Args>(args)...);  // before the storage moves: an argument may live in it
      grow(size_ + 1);
      return *std::construct_at(data_ + size_++, std::move(made));
    }
    return *std::construct_at(data_ + size_++, std::forward<Args>(args)...);
  }
  void pop_back() { std::destroy_at(data_ + --size_); }

  // Adds a range, which must not be part of this vector.
  template <std::input_iterator It>
  void append(It first, It last) {
    if constexpr (std::forward_iterator<It>)
      reserve(size_ + static_cast<std::size_t>(std::distance(first, last)));
    for (; first != last; ++first) emplace_back(*first);
  }
  void append(std::span<const T> list) { append(list.begin(), list.end()); }

  iterator insert(const_iterator where, T value) {
    const std::ptrdiff_t at = where - data_;
    emplace_back(std::move(value));
    std::rotate(data_ + at, end() - 1, end());
    return data_ + at;
  }
  iterator erase(const_iterator where) { return erase(where, where + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    T* to = data_ + (first - data_);
    T* new_end = std::move(data_ + (last - data_), end(), to);
    shrink_to(static_cast<std::size_t>(new_end - data_));
    return to;
  }

  operator std::span<const T>() const { return {data_, size_}; }
  operator std::span<T>() { return {data_, size_}; }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend auto operator<=>(const SmallVector& a, const SmallVector& b)
    requires std::three_way_comparable<T>
  {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  const T* inline_data() const { return reinterpret_cast<const T*>(inline_); }

  void shrink_to(std::size_t count) {
    if (count >= size_) return;
    std::destroy(data_ + count, data_ + size_);
    size_ = static_cast<std::uint32_t>(count);
  }
  void grow(std::size_t least) {
    const std::size_t capacity = std::max<std::size_t>(least, 2 * std::size_t{capacity_});
    T* data = std::allocator<T>().allocate(capacity);
    std::uninitialized_move_n(data_, size_, data);
    release();
    data_ = data;
    capacity_ = static_cast<std::uint32_t>(capacity);
  }
  // Destroys the elements and frees the heap block; size_ and data_ are the caller's to reset.
  void release() {
    std::destroy_n(data_, size_);
    if (!is_inline()) std::allocator<T>().deallocate(data_, capacity_);
  }
  // Takes over another vector's elements; this one is empty and inline.
  void take(SmallVector& other) {
    if (other.is_inline()) {
      std::uninitialized_move_n(other.data_, other.size_, data_);
      size_ = other.size_;
      other.clear();
    } else {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, static_cast<std::uint32_t>(N));
      size_ = std::exchange(other.size_, 0);
    }
  }

  T* data_ = inline_data();
  std::uint32_t size_ = 0, capacity_ = N;
  alignas(T) std::byte inline_[N * sizeof(T)];
};

}  // namespace lathe
