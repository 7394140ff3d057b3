package main

import (
	"encoding/json"
	"errors"
	"fmt"
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

// state is what survives a restart: the claims that are prepared.
type state struct {
	path    string
	Version int                            `json:"version"`
	Claims  map[types.UID][]preparedDevice `json:"claims"`
}

// openState reads the checkpoint. A damaged one is set aside: a driver that does not start helps nobody.
func openState(path string) (*state, error) {
	empty := &state{path: path, Version: stateVersion, Claims: map[types.UID][]preparedDevice{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return nil, err
	}
	found := state{path: path}
	err = json.Unmarshal(text, &found)
	if err == nil && (found.Version != stateVersion || found.Claims == nil) {
		err = fmt.Errorf("version %d, known is %d", found.Version, stateVersion)
	}
	if err != nil {
		klog.ErrorS(err, "Checkpoint is damaged, starting without it", "path", path, "kept", path+".damaged")
		return empty, os.Rename(path, path+".damaged")
	}
	return &found, nil
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
	if err := writeFile(s.path, state{Version: stateVersion, Claims: claims}); err != nil {
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
