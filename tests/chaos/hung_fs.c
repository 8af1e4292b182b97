// A file system that hangs: `hung_fs FOLDER` mounts one on FOLDER, by the kernel's FUSE protocol,
// with one file in it, `file`, which may be executed. Who opens it waits for ever, in a state that
// SIGKILL does not end, until this program is gone. Says "ready", and "open" for each who waits;
// exits with 77 if it may not mount.
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kFileNode = 2 };

static const char* folder;

static void end(int signal) {
  (void)signal;
  umount2(folder, MNT_DETACH);
  _exit(0);  // closes the connection, and with it every wait
}

static void answer(int fd, const struct fuse_in_header* in, int error, void* out, size_t size) {
  struct fuse_out_header header = {
      .len = (uint32_t)(sizeof header + size), .error = error, .unique = in->unique};
  const struct iovec parts[] = {{&header, sizeof header}, {out, size}};
  if (writev(fd, parts, 2) < 0 && errno != ENOENT) perror("hung_fs: answer");
}

static struct fuse_attr attributes(uint64_t node) {
  const int is_file = node == kFileNode;
  return (struct fuse_attr){.ino = node,
                            .mode = is_file ? S_IFREG | 0755 : S_IFDIR | 0755,
                            .nlink = 1,
                            .size = 4096,
                            .blksize = 4096};
}

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  folder = argv[1];
  const int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  char options[128];
  snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
  if (fd < 0 || mount("hung_fs", folder, "fuse", MS_NOSUID | MS_NODEV, options) != 0) return 77;
  signal(SIGTERM, end);
  puts("ready");
  fflush(stdout);
  static char bytes[FUSE_MIN_READ_BUFFER + 65536];
  for (;;) {
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == ENOENT)) continue;
    if (n < (ssize_t)sizeof(struct fuse_in_header)) end(0);
    const struct fuse_in_header* const in = (const struct fuse_in_header*)bytes;
    const char* const body = bytes + sizeof *in;
    switch (in->opcode) {
      case FUSE_INIT: {
        const struct fuse_init_in* const theirs = (const struct fuse_init_in*)body;
        struct fuse_init_out ours = {.major = FUSE_KERNEL_VERSION,
                                     .minor = FUSE_KERNEL_MINOR_VERSION < theirs->minor
                                                  ? FUSE_KERNEL_MINOR_VERSION
                                                  : theirs->minor,
                                     .max_write = 4096};
        answer(fd, in, 0, &ours, sizeof ours);
        break;
      }
      case FUSE_LOOKUP: {
        struct fuse_entry_out entry = {.nodeid = kFileNode,
                                       .entry_valid = 3600,
                                       .attr_valid = 3600,
                                       .attr = attributes(kFileNode)};
        const int is_there = strcmp(body, "file") == 0;
        answer(fd, in, is_there ? 0 : -ENOENT, &entry, is_there ? sizeof entry : 0);
        break;
      }
      case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr_valid = 3600, .attr = attributes(in->nodeid)};
        answer(fd, in, 0, &out, sizeof out);
        break;
      }
      case FUSE_OPEN:  // hangs
        puts("open");
        fflush(stdout);
        break;
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:
        break;
      default:
        answer(fd, in, -ENOSYS, NULL, 0);
    }
  }
}
