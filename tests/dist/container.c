// container [--userns FIRST] [--net] [--close] [--user UID] FOLDER PROGRAM [ARGUMENTS...]: runs a
// program as a container's runtime does, without an image. The root file system is this machine's,
// read-only, with FOLDER at /mnt/build. The program
//   - is process 1 of a PID namespace, and has its own mounts, IPC and hostname ("pod")
//   - is user UID (12345), who has no entry in /etc/passwd, without capabilities
//   - has a /tmp and a /dev/shm of 64 MB of its own, and HOME=/
//   - has a seccomp filter that denies what Docker's denies, and ptrace
//   - finds the value of TEST_SECRET in /mnt/secret, as Kubernetes mounts a Secret
// --userns: users are mapped from FIRST on, in a user namespace. --net: its network is loopback
// alone. --close: it gets no descriptor but 0 to 2. Passes on SIGTERM and SIGINT, and ends with the
// program's code; 77: namespaces cannot be made here.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child = -1;

static int fail(const char* what) {
  fprintf(stderr, "container: %s: %s\n", what, strerror(errno));
  return 125;
}

static void pass_on(int signal) {
  if (child > 0) kill(child, signal);
}

static int make_tmpfs(const char* path, const char* options) {
  return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options);
}

static int write_secret(uid_t root) {
  const char* const secret = getenv("TEST_SECRET");
  if (secret == NULL) return 0;
  const int fd = open("/mnt/secret", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  const size_t size = strlen(secret);
  const int written = write(fd, secret, size) == (ssize_t)size && fchown(fd, root, root) == 0;
  close(fd);
  return written ? 0 : -1;
}

static int make_mounts(const char* folder, uid_t root) {
  struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      make_tmpfs("/mnt", "mode=755") != 0 || mkdir("/mnt/build", 0755) != 0 ||
      mount(folder, "/mnt/build", NULL, MS_BIND, NULL) != 0 || write_secret(root) != 0 ||
      syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &read_only, sizeof read_only) != 0) {
    return -1;
  }
  return make_tmpfs("/tmp", "size=64m,mode=1777") == 0 &&
                 make_tmpfs("/dev/shm", "size=64m,mode=1777") == 0 &&
                 mount("proc", "/proc", "proc", 0, NULL) == 0
             ? 0
             : -1;
}

static int loopback_up(void) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int result = ioctl(fd, SIOCSIFFLAGS, &request);
  close(fd);
  return result;
}

static int write_map(pid_t pid, const char* name, unsigned first) {
  char path[64], line[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  const int size = snprintf(line, sizeof line, "0 %u 65536", first);
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const int written = write(fd, line, (size_t)size) == size;
  close(fd);
  return written ? 0 : -1;
}

static int deny_calls(void) {
  static const int denied[] = {
      SYS_ptrace,
      SYS_process_vm_readv,
      SYS_process_vm_writev,
      SYS_kcmp,
      SYS_pidfd_getfd,
      SYS_process_madvise,
      SYS_keyctl,
      SYS_add_key,
      SYS_request_key,
      SYS_perf_event_open,
      SYS_bpf,
      SYS_mbind,
      SYS_set_mempolicy,
      SYS_get_mempolicy,
      SYS_migrate_pages,
      SYS_move_pages,
      SYS_userfaultfd,
      SYS_unshare,
      SYS_setns,
      SYS_mount,
      SYS_umount2,
      SYS_pivot_root,
      SYS_chroot,
      SYS_open_by_handle_at,
      SYS_io_uring_setup,
      SYS_io_uring_enter,
      SYS_io_uring_register,
      SYS_fanotify_init,
      SYS_clock_settime,
      SYS_settimeofday,
      SYS_sethostname,
      SYS_syslog,
      SYS_lookup_dcookie,
      SYS_quotactl,
      SYS_acct,
      SYS_reboot,
      SYS_iopl,
      SYS_ioperm,
      SYS_vhangup,
      SYS_init_module,
  };
  enum { kDenied = sizeof denied / sizeof denied[0] };
  const unsigned namespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                              CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP;
  struct sock_filter filter[16 + 2 * kDenied] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      // The C library takes clone() in its place, whose flags a filter can read.
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  };
  unsigned size = 3;
  for (int i = 0; i < kDenied; ++i) {
    filter[size++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)denied[i], 0, 1);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }
  const struct sock_filter end[] = {
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, namespaces, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  memcpy(filter + size, end, sizeof end);
  size += sizeof end / sizeof end[0];
  const struct sock_fprog program = {.len = (unsigned short)size, .filter = filter};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// Reads `ready` once the parent has written the maps of users.
static int be_program(char** argv, const char* folder, uid_t user, unsigned first, int made,
                      int ready) {
  char byte = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (make_mounts(folder, first) != 0) return fail("mounts");
  if (sethostname("pod", 3) != 0 || chdir("/") != 0 || setgroups(0, NULL) != 0) return fail("host");
  if (first != 0) {
    if (unshare(CLONE_NEWUSER) != 0) return fail("user namespace");
    if (write(made, &byte, 1) != 1 || read(ready, &byte, 1) != 1) return fail("maps of users");
  }
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    prctl(PR_CAPBSET_DROP, capability);
  }
  if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) return fail("user");
  setenv("HOME", "/", 1);
  unsetenv("XDG_CONFIG_HOME");
  unsetenv("TEST_SECRET");
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of the user clears it
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || deny_calls() != 0) return fail("seccomp");
  execvp(argv[0], argv);
  return fail(argv[0]);
}

int main(int argc, char** argv) {
  unsigned first = 0;
  uid_t user = 12345;
  int flags = CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC;
  int closes = 0;
  int next = 1;
  for (; next < argc && strncmp(argv[next], "--", 2) == 0; ++next) {
    if (strcmp(argv[next], "--net") == 0) flags |= CLONE_NEWNET;
    if (strcmp(argv[next], "--close") == 0) closes = 1;
    if (strcmp(argv[next], "--userns") == 0) first = (unsigned)atoi(argv[++next]);
    if (strcmp(argv[next], "--user") == 0) user = (uid_t)atoi(argv[++next]);
  }
  if (argc < next + 2) return 64;
  if (unshare(flags) != 0) return 77;
  if ((flags & CLONE_NEWNET) != 0 && loopback_up() != 0) return fail("loopback");
  int made[2], ready[2];
  if (pipe2(made, O_CLOEXEC) != 0 || pipe2(ready, O_CLOEXEC) != 0) return fail("pipe");
  signal(SIGTERM, pass_on);
  signal(SIGINT, pass_on);
  // A signal waits until `child` is known.
  sigset_t passed, before;
  sigemptyset(&passed);
  sigaddset(&passed, SIGTERM);
  sigaddset(&passed, SIGINT);
  sigprocmask(SIG_BLOCK, &passed, &before);
  child = fork();
  if (child < 0) return fail("fork");
  if (child == 0) {
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (closes) {
      for (int fd = 3; fd < 1024; ++fd) {
        if (fd != made[1] && fd != ready[0]) close(fd);
      }
    }
    _exit(be_program(argv + next + 1, argv[next], user, first, made[1], ready[0]));
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  close(made[1]);
  char byte = 0;
  if (first != 0 && read(made[0], &byte, 1) == 1) {
    if (write_map(child, "uid_map", first) != 0 || write_map(child, "gid_map", first) != 0 ||
        write(ready[1], &byte, 1) != 1) {
      return fail("maps of users");
    }
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
