// Files of the disk cache: what is read back, and that nothing else is.
#include "runtime/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

namespace framejit::runtime {
namespace {

using codegen::KernelCode;

KernelCode sample(std::size_t size = 100) {
  KernelCode code;
  code.name = "negative_multiply";
  for (std::size_t i = 0; i < size; ++i) code.bytes.push_back(static_cast<uint8_t>(i * 7 + 3));
  code.addresses = {{8, 0}, {40, 2}};
  return code;
}

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/framejit-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST(DiskCacheFile, RoundTrip) {
  const KernelCode code = sample();
  const std::string file = DiskCache::write("build 1", "key", code);
  KernelCode read;
  ASSERT_TRUE(DiskCache::read(file, "build 1", "key", read));
  EXPECT_EQ(read.name, code.name);
  ASSERT_EQ(read.addresses.size(), 2u);
  EXPECT_EQ(read.addresses[1].at, 40u);
  EXPECT_EQ(read.addresses[1].number, 2u);
  int one = 0, two = 0;
  const std::vector<const void*> addresses{&one, &two, &read};
  KernelCode placed = read;
  ASSERT_TRUE(placed.place(addresses));
  const void* found;
  std::memcpy(&found, placed.bytes.data() + 40, sizeof found);
  EXPECT_EQ(found, &read);
  for (std::size_t i = 0; i < code.bytes.size(); ++i) {
    if ((i >= 8 && i < 16) || (i >= 40 && i < 48)) EXPECT_EQ(read.bytes[i], 0) << i;
    else EXPECT_EQ(read.bytes[i], code.bytes[i]) << i;
  }
  EXPECT_FALSE(KernelCode(read).place(std::span(addresses).first(2)));  // number 2 is not there
}

TEST(DiskCacheFile, OfAnother) {
  const std::string file = DiskCache::write("build 1", "key", sample());
  KernelCode read;
  EXPECT_FALSE(DiskCache::read(file, "build 2", "key", read));
  EXPECT_FALSE(DiskCache::read(file, "build 1", "kez", read));
  EXPECT_FALSE(DiskCache::read(file, "build 1", "", read));
  EXPECT_TRUE(read.bytes.empty());
}

/// Each bit, and each length.
TEST(DiskCacheFile, Corruption) {
  const std::string file = DiskCache::write("build 1", "key", sample());
  KernelCode read;
  for (std::size_t i = 0; i < file.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = file;
      other[i] = static_cast<char>(other[i] ^ (1 << bit));
      EXPECT_FALSE(DiskCache::read(other, "build 1", "key", read)) << i << " " << bit;
    }
    EXPECT_FALSE(DiskCache::read(file.substr(0, i), "build 1", "key", read)) << i;
    EXPECT_FALSE(DiskCache::read(file.substr(i + 1), "build 1", "key", read)) << i;
  }
  EXPECT_FALSE(DiskCache::read(file + '\0', "build 1", "key", read));
}

/// Bytes of which a checksum was made afterwards: whatever they say, nothing outside of them is read.
TEST(DiskCacheFile, Forged) {
  std::mt19937 random(7);
  const std::string file = DiskCache::write("build 1", "key", sample());
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string other = file;
    const std::size_t changes = 1 + random() % 3;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = random() % (round % 2 ? 60 : other.size());
      other[at] = static_cast<char>(random() % 4 == 0 ? 0xff : random());
    }
    if (round % 5 == 0) other.resize(random() % (other.size() + 1));
    DiskCache::seal(other);
    KernelCode read;
    if (!DiskCache::read(other, "build 1", "key", read)) continue;
    ++taken;
    for (const KernelCode::Address& address : read.addresses) EXPECT_LE(address.at + sizeof(void*), read.bytes.size());
  }
  EXPECT_GT(taken, 0);  // other code under the right key
}

TEST(DiskCache, FindsWhatWasAdded) {
  const Folder folder;
  DiskCache first({folder.path + "/a/b", "build 1", 1 << 20});
  KernelCode read;
  EXPECT_FALSE(first.find("key", read));
  first.add("key", sample());
  EXPECT_TRUE(first.find("key", read));
  DiskCache second({folder.path + "/a/b", "build 1", 1 << 20}), other({folder.path + "/a/b", "build 2", 1 << 20});
  EXPECT_TRUE(second.find("key", read));
  EXPECT_FALSE(second.find("another key", read));
  EXPECT_FALSE(other.find("key", read));
  EXPECT_EQ(first.take_complaint() + second.take_complaint() + other.take_complaint(), "");
}

TEST(DiskCache, KeepsToItsLimit) {
  const Folder folder;
  constexpr int64_t kLimit = 50'000;
  DiskCache cache({folder.path, "build 1", kLimit});
  for (int i = 0; i < 200; ++i) {
    cache.add("key " + std::to_string(i), sample(900));
    int64_t bytes = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path))
      if (file.is_regular_file()) bytes += static_cast<int64_t>(file.file_size());
    EXPECT_LE(bytes, kLimit + kLimit / 32) << i;
  }
  KernelCode read;
  EXPECT_TRUE(cache.find("key 199", read));
  cache.add("large", sample(60'000));  // never fits
  EXPECT_FALSE(cache.find("large", read));
  EXPECT_EQ(cache.take_complaint(), "");
}

TEST(DiskCache, ComplainsOnce) {
  const Folder folder;
  ASSERT_EQ(chmod(folder.path.c_str(), 0777), 0);
  DiskCache cache({folder.path, "build 1", 1 << 20});
  KernelCode read;
  EXPECT_FALSE(cache.find("key", read));
  EXPECT_NE(cache.take_complaint().find(folder.path), std::string::npos);
  cache.add("key", sample());
  EXPECT_FALSE(cache.find("key", read));
  EXPECT_EQ(cache.take_complaint(), "");
}

TEST(DiskCache, Threads) {
  const Folder folder;
  DiskCache cache({folder.path, "build 1", 1 << 20});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache] {
      KernelCode read;
      for (int i = 0; i < 50; ++i) {
        const std::string key = "key " + std::to_string(i);
        cache.add(key, sample(64 + static_cast<std::size_t>(i)));
        EXPECT_TRUE(cache.find(key, read));
        EXPECT_EQ(read.bytes.size(), 64u + static_cast<std::size_t>(i));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace framejit::runtime
