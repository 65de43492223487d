package disk

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// At returns a directory of this machine. It need not exist yet, and is looked up for each call: one that was moved away is
// not used any more.
func At(directory string) FS { return system{directory} }

type system struct{ directory string }

func (s system) MakeAll(mode fs.FileMode) error { return makeAll(s.directory, mode) }

func makeAll(directory string, mode fs.FileMode) error {
	if info, err := os.Stat(directory); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: directory, Err: ErrNotDirectory}
		}
		return nil
	}
	parent := filepath.Dir(directory)
	if parent != directory {
		if err := makeAll(parent, mode); err != nil {
			return err
		}
	}
	switch err := os.Mkdir(directory, mode); {
	case errors.Is(err, fs.ErrExist): // another process was faster
		return nil
	case err != nil:
		return err
	}
	if err := permit(os.Lstat, os.Chmod, directory, mode); err != nil {
		return errors.Join(err, os.Remove(directory))
	}
	return syncAbove(parent)
}

// syncAbove makes the name of a directory safe. Who may make directories in another need not be allowed to open that, and
// then can do no more.
func syncAbove(directory string) error {
	opened, err := os.Open(directory)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(syncDirectory(opened), opened.Close())
}

// below calls f with the directory opened, so that no link leads out of it.
func (s system) below(f func(*os.Root) error) error {
	root, err := os.OpenRoot(s.directory)
	if err != nil {
		return err
	}
	return errors.Join(f(root), root.Close())
}

func (s system) Mkdir(path string, mode fs.FileMode) (made bool, err error) {
	err = s.below(func(root *os.Root) error {
		err := root.Mkdir(path, mode)
		if errors.Is(err, fs.ErrExist) {
			return mustBeDirectory(root, path)
		}
		if err != nil {
			return err
		}
		if err := permit(root.Lstat, root.Chmod, path, mode); err != nil {
			return errors.Join(err, root.Remove(path))
		}
		made = true
		return nil
	})
	return made, err
}

// permit gives a directory that was made its permissions, whatever the umask took away. It keeps what the directory has of the
// one above: that files in it get its group.
func permit(
	lstat func(string) (fs.FileInfo, error), chmod func(string, fs.FileMode) error, directory string, mode fs.FileMode,
) error {
	info, err := lstat(directory)
	if err != nil || info.Mode().Perm() == mode { // to set them again may take that away
		return err
	}
	return chmod(directory, mode|info.Mode()&fs.ModeSetgid)
}

func mustBeDirectory(root *os.Root, path string) error {
	info, err := root.Lstat(path)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotDirectory}
	}
	return err
}

// mustBeDirectoryAbove refuses a link in the place of the directory that a file is in.
func mustBeDirectoryAbove(root *os.Root, name string) error {
	if directory := path.Dir(name); directory != "." {
		return mustBeDirectory(root, directory)
	}
	return nil
}

func (s system) Create(path string, mode fs.FileMode) (file File, err error) {
	err = s.below(func(root *os.Root) error {
		if err := mustBeDirectoryAbove(root, path); err != nil {
			return err
		}
		created, err := root.OpenFile(path, toAppend|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		if err := created.Chmod(mode); err != nil { // whatever the umask took away
			return errors.Join(err, removeCreated(root, path, created), created.Close())
		}
		file = osFile{created}
		return nil
	})
	return file, err
}

// removeCreated removes a file that was made, unless somebody replaced it.
func removeCreated(root *os.Root, path string, created *os.File) error {
	if is, err := isNameOf(root, path, created); err != nil || !is {
		return err
	}
	return root.Remove(path)
}

func (s system) Open(path string) (file File, err error) {
	err = s.below(func(root *os.Root) error {
		if err := mustBeDirectoryAbove(root, path); err != nil {
			return err
		}
		opened, err := openRegular(root, path)
		if err != nil {
			return err
		}
		file = osFile{opened}
		return nil
	})
	return file, err
}

// openRegular opens nothing but a regular file: to open a device may be to use it.
func openRegular(root *os.Root, path string) (*os.File, error) {
	if info, err := root.Lstat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, notRegular(path)
	}
	file, err := root.OpenFile(path, toAppend, 0)
	if err != nil {
		return nil, err
	}
	if is, err := isNameOf(root, path, file); err != nil || !is { // it was replaced meanwhile, perhaps by a link
		return nil, errors.Join(notRegular(path), err, file.Close())
	}
	return file, nil
}

func notRegular(path string) error { return &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular} }

func isNameOf(root *os.Root, path string, file *os.File) (bool, error) {
	named, err := root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	opened, err := file.Stat()
	return err == nil && named.Mode().IsRegular() && os.SameFile(named, opened), err
}

func (s system) Is(path string, file File) (is bool, err error) {
	err = s.below(func(root *os.Root) error {
		is, err = isNameOf(root, path, file.(osFile).File)
		return err
	})
	if err != nil && !saysNothing(err) { // there is no such path any more, or it leads elsewhere
		return false, nil
	}
	return is, err
}

// saysNothing reports whether an error is about this process or the disk, and not about the path.
func saysNothing(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, fs.ErrPermission}, func(e error) bool {
		return errors.Is(err, e)
	})
}

// walked is how many entries of a directory are in memory at a time.
const walked = 256

func (s system) Walk(path string, f func(Info) error) error {
	return s.below(func(root *os.Root) error {
		directory, err := root.Open(path)
		if err != nil {
			return err
		}
		defer directory.Close()
		for {
			entries, err := directory.ReadDir(walked)
			for _, entry := range entries {
				info, errInfo := entry.Info()
				if errInfo != nil { // it was removed meanwhile
					continue
				}
				if err := f(infoOf(info)); err != nil {
					return err
				}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

func (s system) Rename(from, to string) error {
	return s.below(func(root *os.Root) error { return root.Rename(from, to) })
}

func (s system) Remove(path string) error {
	return s.below(func(root *os.Root) error { return root.Remove(path) })
}

func (s system) Touch(path string, modified time.Time) error {
	return s.below(func(root *os.Root) error { return root.Chtimes(path, time.Time{}, modified) })
}

func (s system) SyncDirectory(path string) error {
	return s.below(func(root *os.Root) error {
		directory, err := root.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(syncDirectory(directory), directory.Close())
	})
}

func (s system) Locks(path string) (locks bool, err error) {
	err = s.below(func(root *os.Root) error {
		directory, err := root.Open(path)
		if err != nil {
			return err
		}
		locks, err = locksAreKept(directory)
		return errors.Join(err, directory.Close())
	})
	return locks, err
}

func (s system) Free() (int64, error) { return free(s.directory) }

// osFile is a file of this machine.
type osFile struct{ *os.File }

func (f osFile) Stat() (Info, error) {
	info, err := f.File.Stat()
	if err != nil {
		return Info{}, err
	}
	return infoOf(info), nil
}

func infoOf(info fs.FileInfo) Info {
	result := Info{Name: info.Name(), Size: info.Size(), Modified: info.ModTime(), Mode: info.Mode()}
	result.OthersOwn, result.Unlinked = ownership(info)
	return result
}

func (f osFile) Lock() error          { return lock(f.File) }
func (f osFile) Mark(ours bool) error { return mark(f.File, ours) }
func (f osFile) Marked() bool         { return marked(f.File) }

// Probe checks that a file can be made in a directory.
func Probe(d FS) error {
	name := ".raw-probe-" + rand.Text()
	file, err := d.Create(name, probeMode)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, "\n")
	return errors.Join(err, file.Close(), d.Remove(name))
}

// probeMode is that of a file that is there for a moment.
const probeMode fs.FileMode = 0o600

// OthersMayWrite reports whether users that are neither the owner nor of its group may write to the directory. Windows has
// no such bit.
func OthersMayWrite(directory string) bool {
	info, err := os.Stat(directory)
	return err == nil && hasPermissions && info.Mode().Perm()&0o002 != 0
}
