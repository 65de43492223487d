package upkeep

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math"
	"path"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/otel-rawoutput/rawoutput/internal/disk"
	"github.com/otel-rawoutput/rawoutput/internal/layout"
)

// compressAll compresses the closed files of ours, where locks keep writers away meanwhile, and removes what an earlier
// process left when it was killed while it compressed.
func (k *Keeper) compressAll(ctx context.Context) (done Round) {
	k.eachHour(ctx, func(hour string) {
		compressed, err := k.compressHour(ctx, hour)
		done.Compressed += compressed
		k.note(ctx, err)
	})
	return done
}

func (k *Keeper) compressHour(ctx context.Context, hour string) (compressed int, err error) {
	locks, err := k.disk.Locks(hour)
	if err != nil || !locks {
		return 0, err
	}
	err = k.disk.Walk(hour, func(info disk.Info) error {
		if k.compressOne(ctx, hour, info) {
			compressed++
		}
		return context.Cause(ctx)
	})
	return compressed, err
}

func (k *Keeper) compressOne(ctx context.Context, hour string, info disk.Info) (compressed bool) {
	if !info.Mode.IsRegular() || !isClosed(info.Modified, time.Now(), true) {
		return false
	}
	name, ok := layout.Parse(info.Name)
	e := &entry{info, path.Join(hour, info.Name), hour, name}
	var err error
	switch {
	case layout.IsTemporary(info.Name):
		err = k.removeTemporary(e.path)
	case ok && !name.Compressed:
		compressed, err = k.compress(ctx, e)
	}
	k.noteOf(ctx, e, err)
	return compressed
}

func (k *Keeper) removeTemporary(path string) error {
	file, err := k.hold(path)
	if err != nil {
		return err
	}
	return errors.Join(k.disk.Remove(path), file.Close())
}

// compress puts a compressed file in the place of one of ours.
func (k *Keeper) compress(ctx context.Context, e *entry) (compressed bool, err error) {
	file, err := k.hold(e.path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if !isOurs(e.name, file) {
		return false, nil
	}
	if err := unchanged(file, e.Info); err != nil {
		return false, err
	}
	if err := k.repair(e.path, file); err != nil {
		return false, err
	}
	target, there, err := k.target(ctx, e, file)
	if err != nil {
		return false, err
	}
	if there { // a process was killed before it removed the file
		return false, k.disk.Remove(e.path)
	}
	if !k.mayFit(e.Size) {
		return false, errNoRoom
	}
	err = k.compressTo(ctx, e, file, target)
	return err == nil, err
}

// unchanged fails where somebody wrote to a file since it was found, or does although it is locked, as the original hook may.
func unchanged(file disk.File, found disk.Info) error {
	info, err := file.Stat()
	if err == nil && !info.Modified.Equal(found.Modified) {
		err = errBusy
	}
	return err
}

// target returns the name that a file is to have when it is compressed, and whether just that is there. Where lines that came
// earlier have the usual name, the suffix is made of the lines: after a crash they get the same name again.
func (k *Keeper) target(ctx context.Context, e *entry, file disk.File) (target layout.Name, there bool, err error) {
	target = e.name
	target.Compressed = true
	exists, same, err := k.isCompressed(ctx, path.Join(e.hour, target.String()), file)
	if err != nil || !exists || same {
		return target, same, err
	}
	digest := sha256.New()
	if _, err := io.Copy(digest, contentOf(ctx, file)); err != nil {
		return target, false, err
	}
	target.Suffix = layout.SuffixOf(digest.Sum(nil))
	exists, same, err = k.isCompressed(ctx, path.Join(e.hour, target.String()), file)
	if err == nil && exists && !same {
		err = &fs.PathError{Op: "compress", Path: e.path, Err: fs.ErrExist}
	}
	return target, same, err
}

// compressTo makes the compressed file under a temporary name, makes it safe, and then removes the other.
func (k *Keeper) compressTo(ctx context.Context, e *entry, file disk.File, target layout.Name) (err error) {
	temporary := path.Join(e.hour, target.Temporary())
	made, err := k.disk.Create(temporary, e.Mode.Perm())
	if errors.Is(err, fs.ErrExist) { // of a process that was killed; the next round goes on
		return errors.Join(errBusy, k.removeTemporary(temporary))
	}
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, made.Close())
		if err != nil {
			if errRemove := k.disk.Remove(temporary); !errors.Is(errRemove, fs.ErrNotExist) {
				err = errors.Join(err, errRemove)
			}
		}
	}()
	if err := k.lock(temporary, made); err != nil {
		return err
	}
	if err := made.Mark(true); err != nil && target.Suffix == "" {
		return err
	}
	if err := writeCompressed(ctx, sparing{made, k}, file); err != nil {
		return err
	}
	if err := k.disk.Touch(temporary, e.Modified); err != nil { // it is as old as its lines
		return err
	}
	if err := made.Sync(); err != nil {
		return err
	}
	if err := unchanged(file, e.Info); err != nil {
		return err
	}
	if err := k.disk.Rename(temporary, path.Join(e.hour, target.String())); err != nil {
		return err
	}
	if err := k.disk.SyncDirectory(e.hour); err != nil {
		return err
	}
	return k.disk.Remove(e.path)
}

// writeCompressed compresses with bounded memory: one block at a time, and no more than one processor.
func writeCompressed(ctx context.Context, to io.Writer, from disk.File) error {
	encoder, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return err
	}
	_, err = io.Copy(encoder, contentOf(ctx, from))
	return errors.Join(err, encoder.Close())
}

// contentOf reads a file from its beginning, until the context is done.
func contentOf(ctx context.Context, file disk.File) io.Reader {
	return &stoppable{ctx, io.NewSectionReader(file, 0, math.MaxInt64)}
}

type stoppable struct {
	ctx context.Context
	io.Reader
}

func (s *stoppable) Read(p []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}

// isCompressed reports whether there is something of that path, and whether that is just the lines of a file.
func (k *Keeper) isCompressed(ctx context.Context, path string, file disk.File) (exists, same bool, err error) {
	compressed, err := k.disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return true, false, err
	}
	defer compressed.Close()
	decoder, err := zstd.NewReader(contentOf(ctx, compressed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return true, false, err
	}
	defer decoder.Close()
	return true, sameContent(decoder, contentOf(ctx, file)), context.Cause(ctx)
}

// sameContent reports whether two readers give the same, and end.
func sameContent(a, b io.Reader) bool {
	bufferA, bufferB := bufio.NewReader(a), bufio.NewReader(b)
	for {
		blockA, errA := bufferA.Peek(compared)
		blockB, errB := bufferB.Peek(compared)
		if !bytes.Equal(blockA, blockB) || errors.Is(errA, io.EOF) != errors.Is(errB, io.EOF) {
			return false
		}
		if errA != nil || errB != nil {
			return errors.Is(errA, io.EOF) && errors.Is(errB, io.EOF)
		}
		_, _ = bufferA.Discard(compared) // they are in the buffer
		_, _ = bufferB.Discard(compared)
	}
}

// compared is how many bytes are compared at a time; a bufio.Reader holds as many.
const compared = 4096
