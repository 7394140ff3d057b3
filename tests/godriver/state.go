package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

const stateVersion = 1

type preparedDevice struct {
	Request string `json:"request"`
	Device  string `json:"device"`
	Mode    string `json:"mode,omitempty"`
}

// checkpoint is the file: the claims with a checksum of their text, so that damage is seen which leaves valid JSON.
type checkpoint struct {
	Version  int             `json:"version"`
	Checksum uint32          `json:"checksum"`
	Claims   json.RawMessage `json:"claims"`
}

// state is what survives a restart: the claims that are prepared.
type state struct {
	path   string
	Claims map[types.UID][]preparedDevice
}

// openState reads the checkpoint. A damaged one is set aside: a driver that does not start helps nobody.
func openState(path string) (*state, error) {
	found := &state{path: path, Claims: map[types.UID][]preparedDevice{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	if claims, err := parse(text); err == nil {
		found.Claims = claims
		return found, nil
	} else {
		klog.ErrorS(err, "Checkpoint is damaged, starting without it", "path", path, "kept", path+".damaged")
	}
	return found, os.Rename(path, path+".damaged")
}

func parse(text []byte) (map[types.UID][]preparedDevice, error) {
	var file checkpoint
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	if file.Version != stateVersion {
		return nil, fmt.Errorf("version %d, known is %d", file.Version, stateVersion)
	}
	if sum := crc32.ChecksumIEEE(file.Claims); sum != file.Checksum {
		return nil, fmt.Errorf("checksum %d, the claims have %d", file.Checksum, sum)
	}
	claims := map[types.UID][]preparedDevice{}
	return claims, json.Unmarshal(file.Claims, &claims)
}

func (s *state) holder(device string) (types.UID, bool) {
	for claim, prepared := range s.Claims {
		for _, one := range prepared {
			if one.Device == device {
				return claim, true
			}
		}
	}
	return "", false
}

func (s *state) add(claim types.UID, prepared []preparedDevice) error {
	claims := maps.Clone(s.Claims)
	claims[claim] = prepared
	return s.save(claims)
}

func (s *state) remove(claim types.UID) error {
	if _, known := s.Claims[claim]; !known {
		return nil
	}
	claims := maps.Clone(s.Claims)
	delete(claims, claim)
	return s.save(claims)
}

// save makes the claims durable first and current then.
func (s *state) save(claims map[types.UID][]preparedDevice) error {
	text, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	file := checkpoint{Version: stateVersion, Checksum: crc32.ChecksumIEEE(text), Claims: text}
	if err := writeFile(s.path, file); err != nil {
		return err
	}
	s.Claims = claims
	return nil
}

// writeFile replaces a file as a whole: readers see the old or the new one.
func writeFile(path string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, removeIfThere(path+".tmp"))
	}
	return os.Rename(path+".tmp", path)
}
