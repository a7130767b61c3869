// Files of machine code: their format, who may have written them, and which ones go when there are too many.
#include "runtime/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <nmmintrin.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <vector>

#include "graph/support/clock.h"

namespace framejit::runtime {

using codegen::KernelCode;

namespace {

constexpr std::string_view kMagic = "framejit machine code 1\n";
constexpr std::string_view kFolder = "framejit-", kFile = ".kernel", kTemporary = ".new-";
constexpr int64_t kMostBytes = 64 << 20;  // of a file
constexpr time_t kStale = 3600;           // seconds: an older temporary file is of a process that has ended
constexpr time_t kRecent = 24 * 3600;     // what was used so many seconds ago need not be marked as used
constexpr unsigned kWritesBetweenLooks = 64;

/// Sizes of the parts, which follow in this order.
struct Header {
  uint32_t checksum;  // of all bytes that follow
  uint32_t identity, key, name, addresses, code;
};

[[gnu::target("sse4.2")]] uint32_t checksum_of(std::string_view bytes) {
  uint64_t sum = 0xffffffff;
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t part;
    std::memcpy(&part, bytes.data(), sizeof part);
    sum = _mm_crc32_u64(sum, part);
    bytes.remove_prefix(sizeof part);
  }
  for (const char byte : bytes) sum = _mm_crc32_u8(static_cast<uint32_t>(sum), static_cast<unsigned char>(byte));
  return static_cast<uint32_t>(sum);
}

std::string hex_of(std::string_view text) {
  char name[17];
  std::snprintf(name, sizeof name, "%016zx", std::hash<std::string_view>{}(text));
  return name;
}

std::string folder_of(std::string_view identity) { return std::string(kFolder) + hex_of(identity); }
std::string file_of(std::string_view key) { return hex_of(key) + std::string(kFile); }

std::string error_text(int number) { return std::strerror(number); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

/// Can no other user have written it?
bool is_ours(const struct stat& info) { return info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

/// Calls f(name, stat) for what is in the folder.
template <class F>
void each_entry(int folder, F&& f) {
  const int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = own < 0 ? nullptr : fdopendir(own);
  if (!dir) {
    if (own >= 0) ::close(own);
    return;
  }
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    struct stat info;
    if (name != "." && name != ".." && fstatat(own, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
      f(std::string(name), info);
  }
  closedir(dir);
}

bool make_folders(const std::string& path) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      // A folder above may exist where this user can make none.
      struct stat info;
      if (stat(part.c_str(), &info) != 0) return false;
    }
    if (at != std::string::npos) ++at;
  }
  return true;
}

}  // namespace

// ---- the format

std::string DiskCache::write(std::string_view identity, std::string_view key, const KernelCode& code) {
  const auto size_of = [](auto size) { return static_cast<uint32_t>(size); };
  const Header header{0,
                      size_of(identity.size()),
                      size_of(key.size()),
                      size_of(code.name.size()),
                      size_of(code.addresses.size()),
                      size_of(code.bytes.size())};
  std::string out(kMagic);
  out.append(reinterpret_cast<const char*>(&header), sizeof header);
  out.append(identity).append(key).append(code.name);
  for (const KernelCode::Address& address : code.addresses)
    out.append(reinterpret_cast<const char*>(&address), sizeof address);
  const std::size_t first = out.size();
  out.append(reinterpret_cast<const char*>(code.bytes.data()), code.bytes.size());
  // Addresses would tell other processes where this one keeps things.
  for (const KernelCode::Address& address : code.addresses)
    std::memset(out.data() + first + address.at, 0, sizeof(void*));
  seal(out);
  return out;
}

void DiskCache::seal(std::string& file) {
  if (file.size() < kMagic.size() + sizeof(Header)) return;
  const uint32_t checksum = checksum_of(std::string_view(file).substr(kMagic.size() + sizeof(Header::checksum)));
  std::memcpy(file.data() + kMagic.size(), &checksum, sizeof checksum);
}

bool DiskCache::read(std::string_view file, std::string_view identity, std::string_view key, KernelCode& out) {
  Header header;
  if (file.size() < kMagic.size() + sizeof header || file.substr(0, kMagic.size()) != kMagic) return false;
  std::memcpy(&header, file.data() + kMagic.size(), sizeof header);
  if (checksum_of(file.substr(kMagic.size() + sizeof header.checksum)) != header.checksum) return false;
  std::string_view rest = file.substr(kMagic.size() + sizeof header);
  const uint64_t wanted = uint64_t{header.identity} + header.key + header.name +
                          uint64_t{header.addresses} * sizeof(KernelCode::Address) + header.code;
  if (rest.size() != wanted) return false;
  const auto take = [&rest](std::size_t size) {
    const std::string_view part = rest.substr(0, size);
    rest.remove_prefix(size);
    return part;
  };
  if (take(header.identity) != identity || take(header.key) != key) return false;
  KernelCode code;
  code.name = take(header.name);
  code.addresses.resize(header.addresses);
  const std::string_view addresses = take(header.addresses * sizeof(KernelCode::Address));
  if (!addresses.empty()) std::memcpy(code.addresses.data(), addresses.data(), addresses.size());
  for (const KernelCode::Address& address : code.addresses)
    if (uint64_t{address.at} + sizeof(void*) > header.code) return false;
  if (rest.empty()) return false;
  const auto* const first = reinterpret_cast<const uint8_t*>(rest.data());
  code.bytes.assign(first, first + rest.size());
  out = std::move(code);
  return true;
}

// ---- the folder

DiskCache::DiskCache(Options options)
    : options_(std::move(options)), writes_until_look_(static_cast<unsigned>(getpid()) % kWritesBetweenLooks) {}

DiskCache::~DiskCache() { close(); }

void DiskCache::close() {
  for (int* fd : {&folder_, &top_})
    if (*fd >= 0) ::close(std::exchange(*fd, -1));
}

void DiskCache::complain(std::string what) {
  if (complained_) return;
  complained_ = true;
  complaint_ = std::move(what);
}

std::string DiskCache::take_complaint() {
  const std::lock_guard lock(mutex_);
  return std::exchange(complaint_, {});
}

bool DiskCache::open(bool for_writing) {
  if (folder_ >= 0) return true;
  if (refused_ || (for_writing && !writable_)) return false;
  const auto opened = [this](int fd, const std::string& path) {
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) return false;
    if (is_ours(info)) return true;
    refused_ = true;
    complain("the folder " + path +
             " is not used for compiled code, because it belongs to another user, or others may write into it");
    return false;
  };
  const std::string name = folder_of(options_.identity), path = options_.folder + "/" + name;
  const auto failed = [&] {
    if (for_writing && !refused_) {
      writable_ = false;
      complain("compiled code is not kept: " + path + ": " + error_text(errno));
    }
    return false;
  };
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  if (top_ < 0) {
    int fd = ::open(options_.folder.c_str(), kFlags);
    if (fd < 0 && for_writing && make_folders(options_.folder)) fd = ::open(options_.folder.c_str(), kFlags);
    if (fd < 0) return failed();
    top_ = fd;
    if (!opened(fd, options_.folder)) return failed();
  }
  int fd = openat(top_, name.c_str(), kFlags | O_NOFOLLOW);
  if (fd < 0 && for_writing && (mkdirat(top_, name.c_str(), 0700) == 0 || errno == EEXIST))
    fd = openat(top_, name.c_str(), kFlags | O_NOFOLLOW);
  if (fd < 0) return failed();
  if (!opened(fd, path)) {
    ::close(fd);
    return false;
  }
  folder_ = fd;
  return true;
}

bool DiskCache::find(std::string_view key, KernelCode& out) {
  const std::lock_guard lock(mutex_);
  if (!open(false)) return false;
  const Descriptor fd(openat(folder_, file_of(key).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || !is_ours(info) || info.st_size > kMostBytes)
    return false;
  const auto most = static_cast<std::size_t>(info.st_size);
  const std::unique_ptr<char[]> file(new char[most]);
  std::size_t size = 0;
  while (size < most) {
    const ssize_t got = ::read(fd, file.get() + size, most - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (!read({file.get(), size}, options_.identity, key, out)) return false;
  if (std::time(nullptr) - info.st_mtime > kRecent) futimens(fd, nullptr);
  return true;
}

void DiskCache::add(std::string_view key, const KernelCode& code) {
  const std::lock_guard lock(mutex_);
  if (!writable_ || !open(true)) return;
  const std::string bytes = write(options_.identity, key, code);
  if (static_cast<int64_t>(bytes.size()) > std::min(kMostBytes, options_.limit)) return;
  bool saved = save(file_of(key), bytes);
  if (!saved && errno == ENOENT) {  // the folder has been removed meanwhile
    close();
    saved = open(true) && save(file_of(key), bytes);
  }
  if (saved) return note_written(static_cast<int64_t>(bytes.size()));
  complain("compiled code is not kept: " + options_.folder + ": " + error_text(errno));
  writable_ = false;
}

bool DiskCache::save(const std::string& name, std::string_view bytes) {
  // Of other machines too, which may have processes of the same number.
  const std::string temporary =
      std::string(kTemporary) + std::to_string(getpid()) + "-" + std::to_string(now_ns()) + "-" + name;
  int error = 0;
  {
    const Descriptor fd(openat(folder_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd < 0) return false;
    while (!bytes.empty() && error == 0) {
      const ssize_t written = ::write(fd, bytes.data(), bytes.size());
      if (written >= 0) bytes.remove_prefix(static_cast<std::size_t>(written));
      else if (errno != EINTR) error = errno;
    }
  }
  if (error == 0 && renameat(folder_, temporary.c_str(), folder_, name.c_str()) != 0) error = errno;
  if (error == 0) return true;
  unlinkat(folder_, temporary.c_str(), 0);
  errno = error;
  return false;
}

/// All sizes are added up now and then only: there may be many files.
void DiskCache::note_written(int64_t bytes) {
  unseen_bytes_ += bytes;
  if (writes_until_look_ > 0 && unseen_bytes_ < options_.limit / kWritesBetweenLooks) {
    --writes_until_look_;
    return;
  }
  writes_until_look_ = kWritesBetweenLooks;
  unseen_bytes_ = 0;
  remove_oldest();
}

void DiskCache::remove_oldest() {
  struct File {
    time_t used;
    int64_t bytes;
    std::string folder, name;
  };
  std::vector<File> files;
  int64_t total = 0;
  const time_t now = std::time(nullptr);
  each_entry(top_, [&](const std::string& folder, const struct stat& of_folder) {
    if (!folder.starts_with(kFolder) || !S_ISDIR(of_folder.st_mode) || !is_ours(of_folder)) return;
    const Descriptor fd(openat(top_, folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0) return;
    each_entry(fd, [&](const std::string& name, const struct stat& info) {
      if (!S_ISREG(info.st_mode)) return;
      if (name.starts_with(kTemporary)) {
        if (now - info.st_mtime > kStale) unlinkat(fd, name.c_str(), 0);
        return;
      }
      if (!name.ends_with(kFile)) return;
      total += info.st_size;
      files.push_back({info.st_mtime, info.st_size, folder, name});
    });
  });
  if (total <= options_.limit) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  const int64_t wanted = options_.limit / 4 * 3;
  for (const File& file : files) {
    if (total <= wanted) break;
    if (unlinkat(top_, (file.folder + "/" + file.name).c_str(), 0) == 0) total -= file.bytes;
    unlinkat(top_, file.folder.c_str(), AT_REMOVEDIR);  // if it is empty now
  }
}

}  // namespace framejit::runtime
