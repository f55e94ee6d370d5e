#include "lathe/dev/child_process.h"

#include "base/child_process.h"

namespace lathe::dev {

struct ChildProcess::Impl {
  lathe::ChildProcess child;
};

namespace {
ChildProcess::Answer plain(lathe::ChildProcess::Answer answer) {
  return {answer.ok(), std::move(answer.text)};
}
}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> command,
                           const std::vector<std::pair<std::string, std::string>>& variables)
    : impl_(new Impl{lathe::ChildProcess(std::move(command), variables)}) {}
ChildProcess::~ChildProcess() = default;

ChildProcess::Answer ChildProcess::ask(const std::string& line, double seconds) {
  return plain(impl_->child.ask(line, seconds));
}
ChildProcess::Answer ChildProcess::next_line(double seconds) {
  return plain(impl_->child.next_line(seconds));
}
bool ChildProcess::alive() const { return impl_->child.alive(); }

std::string find_program(const std::string& name) { return lathe::find_program(name); }

}  // namespace lathe::dev
