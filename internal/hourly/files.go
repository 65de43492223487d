package hourly

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FileSystem is the little that a Writer needs of one, so that a test can let each call fail.
type FileSystem interface {
	// MakeDirectory makes the directory and those above it where they are missing.
	MakeDirectory(directory string, mode fs.FileMode) error
	// Probe checks that a file can be made in the directory.
	Probe(directory string) error
	// OpenAppend opens a regular file <directory>/<hour>/<name> to append to it, and makes what is missing of the path.
	OpenAppend(directory, hour, name string, permissions Permissions) (File, error)
}

// File is an open file. Write appends, and returns an error if it wrote less than all.
type File interface {
	Write(data []byte) (int, error)
	Size() (int64, error)
	ReadAt(p []byte, offset int64) (int, error)
	Truncate(size int64) error
	Close() error
}

// System returns the file system of the machine.
func System() FileSystem { return system{} }

type system struct{}

func (s system) MakeDirectory(directory string, mode fs.FileMode) error {
	if info, err := os.Stat(directory); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: directory, Err: errors.New("it is a file, not a directory")}
		}
		return nil
	}
	if parent := filepath.Dir(directory); parent != directory {
		if err := s.MakeDirectory(parent, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(directory, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(directory, mode)
}

func (system) Probe(directory string) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer root.Close()
	name := ".raw-probe-" + rand.Text()
	probe, err := root.OpenFile(name, toAppend|os.O_CREATE|os.O_EXCL, probeMode)
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), root.Remove(name))
}

// probeMode is that of a file that is there for a moment.
const probeMode fs.FileMode = 0o600

func (s system) OpenAppend(directory, hour, name string, permissions Permissions) (File, error) {
	file, err := openBelow(directory, hour, name, permissions)
	if errors.Is(err, fs.ErrNotExist) { // the directory itself is gone
		if err = s.MakeDirectory(directory, permissions.Directory); err == nil {
			file, err = openBelow(directory, hour, name, permissions)
		}
	}
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
}

// openBelow opens the file through the directory, so that no link leads out of it.
func openBelow(directory, hour, name string, permissions Permissions) (*os.File, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	path := filepath.Join(hour, name)
	file, err := openExisting(root, path)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := makeHour(root, hour, permissions.Directory); err != nil {
		return nil, err
	}
	return create(root, path, permissions.File)
}

func makeHour(root *os.Root, hour string, mode fs.FileMode) error {
	err := root.Mkdir(hour, mode)
	switch {
	case err == nil:
		return root.Chmod(hour, mode)
	case errors.Is(err, fs.ErrExist):
		return nil
	default:
		return err
	}
}

// toAppend opens a file to append to it and to read how it ends. It does not wait for a writer or a reader where somebody
// put a FIFO in the file's place.
const toAppend = os.O_RDWR | os.O_APPEND | syscall.O_NONBLOCK

func openExisting(root *os.Root, path string) (*os.File, error) {
	file, err := root.OpenFile(path, toAppend, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: it is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func create(root *os.Root, path string, mode fs.FileMode) (*os.File, error) {
	file, err := root.OpenFile(path, toAppend|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return openExisting(root, path)
	}
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(mode); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// osFile is a file of the machine.
type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
