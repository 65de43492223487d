// Package disktest is a file system in memory for tests: each call can be made to fail, processes can be killed and hold
// locks, names be moved from outside, and the power be cut, which loses what was not synced.
package disktest // import "github.com/otel-rawoutput/rawoutput/internal/disk/disktest"

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
)

// Call is what is asked of the file system.
type Call string

// The calls.
const (
	MakeAll       Call = "make all"
	Mkdir         Call = "mkdir"
	Create        Call = "create"
	Open          Call = "open"
	Is            Call = "is"
	Walk          Call = "walk"
	Rename        Call = "rename"
	Remove        Call = "remove"
	Touch         Call = "touch"
	SyncDirectory Call = "sync directory"
	Locks         Call = "locks"
	Free          Call = "free"
	Write         Call = "write"
	ReadAt        Call = "read"
	Close         Call = "close"
	Stat          Call = "stat"
	Truncate      Call = "truncate"
	Sync          Call = "sync"
	Lock          Call = "lock"
	Mark          Call = "mark"
)

// Disk is the file system. Each Process sees it as a disk.FS.
type Disk struct {
	mu    sync.Mutex
	nodes map[string]*node // by path
	safe  map[string]*node // the names that a power cut leaves

	fault func(call Call, path string) (written func(bytes int) int, err error)
	then  func(call Call, path string)

	// NoLocks says that locks can't be relied on; NoMarks that files can't be marked.
	NoLocks, NoMarks bool
	// Capacity is how many bytes there is room for; 0 is any number.
	Capacity int64
}

// node is a file or a directory.
type node struct {
	directory bool
	content   []byte
	safe      []byte // what a power cut leaves
	modified  time.Time
	mode      fs.FileMode
	marked    bool
	othersOwn bool
	lockedBy  *handle
}

// New returns an empty disk.
func New() *Disk {
	return &Disk{nodes: map[string]*node{}, safe: map[string]*node{}}
}

// SetFault says whether a call fails, and how much of a write that fails is written all the same; nil lets all succeed. It must
// not use the disk.
func (d *Disk) SetFault(fault func(call Call, path string) (written func(bytes int) int, err error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fault
}

// SetThen has a function called after each call, when others may use the disk: what happens between two calls.
func (d *Disk) SetThen(then func(call Call, path string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.then = then
}

// Process returns the disk as a process sees it.
func (d *Disk) Process() *Process { return &Process{disk: d} }

// Process is a process that uses the disk; it implements disk.FS.
type Process struct {
	disk    *Disk
	handles []*handle
}

var _ disk.FS = (*Process)(nil)

// Kill ends the process: its locks are free, and what it has open is of no use to it any more.
func (p *Process) Kill() {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	for _, h := range p.handles {
		h.close()
	}
	p.handles = nil
}

// OpenFiles is how many files the process has open.
func (p *Process) OpenFiles() int {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	return len(p.handles)
}

// call counts as one call to the disk. The disk is locked until done is called.
func (d *Disk) call(op Call, path string) (done func(), err error) {
	d.mu.Lock()
	if d.fault != nil {
		if _, err := d.fault(op, path); err != nil {
			d.mu.Unlock()
			return nil, &fs.PathError{Op: string(op), Path: path, Err: err}
		}
	}
	return func() { d.done(op, path) }, nil
}

// done ends what call began.
func (d *Disk) done(op Call, path string) {
	then := d.then
	d.mu.Unlock()
	if then != nil {
		then(op, path)
	}
}

func notThere(op Call, path string) error {
	return &fs.PathError{Op: string(op), Path: path, Err: fs.ErrNotExist}
}

// find returns a node, if its directory is there too.
func (d *Disk) find(op Call, name string) (*node, error) {
	if n, ok := d.nodes[name]; ok {
		return n, nil
	}
	return nil, notThere(op, name)
}

// MakeAll implements disk.FS.
func (p *Process) MakeAll(mode fs.FileMode) error {
	done, err := p.disk.call(MakeAll, ".")
	if err != nil {
		return err
	}
	defer done()
	if _, ok := p.disk.nodes["."]; !ok {
		root := &node{directory: true, mode: mode | fs.ModeDir}
		p.disk.nodes["."], p.disk.safe["."] = root, root
	}
	return nil
}

// Mkdir implements disk.FS.
func (p *Process) Mkdir(path string, mode fs.FileMode) (made bool, err error) {
	done, err := p.disk.call(Mkdir, path)
	if err != nil {
		return false, err
	}
	defer done()
	if _, err := p.disk.find(Mkdir, "."); err != nil {
		return false, err
	}
	if n, ok := p.disk.nodes[path]; ok {
		if !n.directory {
			return false, &fs.PathError{Op: "mkdir", Path: path, Err: disk.ErrNotDirectory}
		}
		return false, nil
	}
	p.disk.nodes[path] = &node{directory: true, mode: mode | fs.ModeDir}
	return true, nil
}

// Create implements disk.FS.
func (p *Process) Create(name string, mode fs.FileMode) (disk.File, error) {
	done, err := p.disk.call(Create, name)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, ok := p.disk.nodes[name]; ok {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	if _, err := p.disk.find(Create, path.Dir(name)); err != nil {
		return nil, err
	}
	n := &node{modified: time.Now(), mode: mode}
	p.disk.nodes[name] = n
	return p.open(name, n), nil
}

// Open implements disk.FS.
func (p *Process) Open(path string) (disk.File, error) {
	done, err := p.disk.call(Open, path)
	if err != nil {
		return nil, err
	}
	defer done()
	n, err := p.disk.find(Open, path)
	if err != nil {
		return nil, err
	}
	if n.directory {
		return nil, &fs.PathError{Op: "open", Path: path, Err: disk.ErrNotRegular}
	}
	return p.open(path, n), nil
}

func (p *Process) open(path string, n *node) *handle {
	h := &handle{process: p, disk: p.disk, node: n, path: path}
	p.handles = append(p.handles, h)
	return h
}

// Is implements disk.FS.
func (p *Process) Is(path string, file disk.File) (bool, error) {
	done, err := p.disk.call(Is, path)
	if err != nil {
		return false, err
	}
	defer done()
	return p.disk.nodes[path] == file.(*handle).node, nil
}

// Walk implements disk.FS.
func (p *Process) Walk(directory string, f func(disk.Info) error) error {
	done, err := p.disk.call(Walk, directory)
	if err != nil {
		return err
	}
	var infos []disk.Info
	for name, n := range p.disk.nodes {
		if name != "." && path.Dir(name) == directory {
			infos = append(infos, n.info(name))
		}
	}
	_, err = p.disk.find(Walk, directory)
	done()
	for _, info := range infos {
		if err := f(info); err != nil {
			return err
		}
	}
	return err
}

// Rename implements disk.FS.
func (p *Process) Rename(from, to string) error {
	done, err := p.disk.call(Rename, from)
	if err != nil {
		return err
	}
	defer done()
	return p.disk.rename(from, to)
}

func (d *Disk) rename(from, to string) error {
	n, err := d.find(Rename, from)
	if err != nil {
		return err
	}
	delete(d.nodes, from)
	d.nodes[to] = n
	for name, inside := range d.nodes {
		if rest, ok := strings.CutPrefix(name, from+"/"); ok {
			delete(d.nodes, name)
			d.nodes[to+"/"+rest] = inside
		}
	}
	return nil
}

// Remove implements disk.FS.
func (p *Process) Remove(name string) error {
	done, err := p.disk.call(Remove, name)
	if err != nil {
		return err
	}
	defer done()
	if _, err := p.disk.find(Remove, name); err != nil {
		return err
	}
	for other := range p.disk.nodes {
		if strings.HasPrefix(other, name+"/") {
			return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrExist}
		}
	}
	delete(p.disk.nodes, name)
	return nil
}

// Touch implements disk.FS.
func (p *Process) Touch(path string, modified time.Time) error {
	done, err := p.disk.call(Touch, path)
	if err != nil {
		return err
	}
	defer done()
	n, err := p.disk.find(Touch, path)
	if err == nil {
		n.modified = modified
	}
	return err
}

// SyncDirectory implements disk.FS.
func (p *Process) SyncDirectory(directory string) error {
	done, err := p.disk.call(SyncDirectory, directory)
	if err != nil {
		return err
	}
	defer done()
	if _, err := p.disk.find(SyncDirectory, directory); err != nil {
		return err
	}
	for name := range p.disk.safe {
		if name != "." && path.Dir(name) == directory && p.disk.nodes[name] != p.disk.safe[name] {
			delete(p.disk.safe, name)
		}
	}
	for name, n := range p.disk.nodes {
		if path.Dir(name) == directory {
			p.disk.safe[name] = n
		}
	}
	return nil
}

// Locks implements disk.FS.
func (p *Process) Locks(path string) (bool, error) {
	done, err := p.disk.call(Locks, path)
	if err != nil {
		return false, err
	}
	defer done()
	return !p.disk.NoLocks, nil
}

// Free implements disk.FS.
func (p *Process) Free() (int64, error) {
	done, err := p.disk.call(Free, ".")
	if err != nil {
		return 0, err
	}
	defer done()
	return p.disk.free(), nil
}

func (d *Disk) free() int64 {
	if d.Capacity == 0 {
		return 1 << 40
	}
	free := d.Capacity
	for _, n := range d.nodes {
		free -= int64(len(n.content))
	}
	return free
}

// handle is an open file.
type handle struct {
	process *Process
	disk    *Disk
	node    *node
	path    string
	closed  bool
}

func (h *handle) call(op Call) (done func(), err error) {
	done, err = h.disk.call(op, h.path)
	if err == nil && h.closed {
		done()
		return nil, &fs.PathError{Op: string(op), Path: h.path, Err: fs.ErrClosed}
	}
	return done, err
}

// Write implements disk.File.
func (h *handle) Write(data []byte) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.done(Write, h.path)
	n, err := len(data), error(nil)
	if h.closed {
		return 0, fs.ErrClosed
	}
	if h.disk.fault != nil {
		written, fault := h.disk.fault(Write, h.path)
		if err = fault; err != nil {
			n = 0
			if written != nil {
				n = written(len(data))
			}
		}
	}
	if room := h.disk.free(); h.disk.Capacity > 0 && int64(n) > room {
		n, err = int(room), errFull
	}
	if n > 0 {
		h.node.content = append(h.node.content, data[:n]...)
		h.node.modified = time.Now()
	}
	if err != nil {
		err = &fs.PathError{Op: "write", Path: h.path, Err: err}
	}
	return n, err
}

// ReadAt implements disk.File.
func (h *handle) ReadAt(p []byte, offset int64) (int, error) {
	done, err := h.call(ReadAt)
	if err != nil {
		return 0, err
	}
	defer done()
	if offset >= int64(len(h.node.content)) {
		return 0, io.EOF
	}
	n := copy(p, h.node.content[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close implements disk.File. A file is closed also where that fails.
func (h *handle) Close() error {
	h.disk.mu.Lock()
	h.close()
	h.process.handles = slices.DeleteFunc(h.process.handles, func(other *handle) bool { return other == h })
	h.disk.mu.Unlock()
	done, err := h.disk.call(Close, h.path)
	if err == nil {
		done()
	}
	return err
}

func (h *handle) close() {
	h.closed = true
	if h.node.lockedBy == h {
		h.node.lockedBy = nil
	}
}

// Stat implements disk.File.
func (h *handle) Stat() (disk.Info, error) {
	done, err := h.call(Stat)
	if err != nil {
		return disk.Info{}, err
	}
	defer done()
	info := h.node.info(h.path)
	info.Unlinked = !h.disk.hasName(h.node)
	return info, nil
}

func (n *node) info(name string) disk.Info {
	return disk.Info{Name: path.Base(name), Size: int64(len(n.content)), Modified: n.modified, Mode: n.mode, OthersOwn: n.othersOwn}
}

func (d *Disk) hasName(n *node) bool {
	for _, named := range d.nodes {
		if named == n {
			return true
		}
	}
	return false
}

// Truncate implements disk.File.
func (h *handle) Truncate(size int64) error {
	done, err := h.call(Truncate)
	if err != nil {
		return err
	}
	defer done()
	h.node.content = h.node.content[:size:size]
	h.node.modified = time.Now()
	return nil
}

// Sync implements disk.File. Where it fails, what was not safe will never be, though a later one succeeds.
func (h *handle) Sync() error {
	done, err := h.call(Sync)
	if err != nil {
		return err
	}
	defer done()
	h.node.safe = slices.Clone(h.node.content)
	return nil
}

// Lock implements disk.File.
func (h *handle) Lock() error {
	done, err := h.call(Lock)
	if err != nil {
		return err
	}
	defer done()
	if h.node.lockedBy != nil && h.node.lockedBy != h {
		return disk.ErrLocked
	}
	h.node.lockedBy = h
	return nil
}

// Mark implements disk.File.
func (h *handle) Mark(ours bool) error {
	done, err := h.call(Mark)
	if err != nil {
		return err
	}
	defer done()
	if h.disk.NoMarks {
		return errNoMarks
	}
	h.node.marked = ours
	return nil
}

// Marked implements disk.File.
func (h *handle) Marked() bool {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.node.marked
}

// What happens to the disk from outside. None of it meets a fault.

// Files returns the paths of all files, in order.
func (d *Disk) Files() (paths []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, n := range d.nodes {
		if !n.directory {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return paths
}

// Directories returns the paths of all directories but the disk's own, in order.
func (d *Disk) Directories() (paths []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, n := range d.nodes {
		if n.directory && name != "." {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return paths
}

// Content returns what is in a file; nothing where there is none.
func (d *Disk) Content(path string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n, ok := d.nodes[path]; ok {
		return string(n.content)
	}
	return ""
}

// IsMarked reports whether a file is marked.
func (d *Disk) IsMarked(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.nodes[path]
	return ok && n.marked
}

// Append appends to a file without a lock, as the original hook does, and makes it with its directory where there is none.
func (d *Disk) Append(name, data string, modified time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, directory := range []string{".", path.Dir(name)} {
		if d.nodes[directory] == nil {
			d.nodes[directory] = &node{directory: true, mode: fs.ModeDir}
		}
	}
	if d.nodes[name] == nil {
		d.nodes[name] = &node{}
	}
	n := d.nodes[name]
	n.content = append(n.content, data...)
	n.modified = modified
}

// GiveAway makes another user the owner of a file.
func (d *Disk) GiveAway(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[path].othersOwn = true
}

// Move gives what has a path another, or removes it where that is empty, with all that is in it.
func (d *Disk) Move(from, to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if to != "" {
		_ = d.rename(from, to)
		return
	}
	for name := range d.nodes {
		if name == from || strings.HasPrefix(name, from+"/") {
			delete(d.nodes, name)
		}
	}
}

// CutPower returns the disk as it is after the power came back: with the names and contents that were synced, and as many of
// the bytes that were written behind them as survive says.
func (d *Disk) CutPower(survive func(bytes int) int) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := New()
	for name, n := range d.safe {
		if d.safe[path.Dir(name)] == nil {
			continue
		}
		kept := slices.Clone(n.safe)
		if behind := len(n.content) - len(n.safe); behind > 0 {
			kept = append(kept, n.content[len(n.safe):len(n.safe)+survive(behind)]...)
		}
		copied := &node{directory: n.directory, content: kept, safe: kept, modified: n.modified, mode: n.mode, marked: n.marked}
		after.nodes[name], after.safe[name] = copied, copied
	}
	return after
}
