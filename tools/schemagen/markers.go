package main

import (
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// markers hold what the server-side apply schema of client-go says about types, by type name and JSON field.
type markers map[string]applyType

type applyType struct {
	atomic bool
	fields map[string]marker
}

// marker holds list type ("atomic", "set", "map") with its keys, map type and default of one field.
type marker struct {
	listType, mapType string
	keys              []string
	defaultValue      any
}

// yamlType is the part of the schema that is read.
type yamlType struct {
	Name string `json:"name"`
	Map  *struct {
		ElementRelationship string `json:"elementRelationship"`
		Fields              []struct {
			Name    string   `json:"name"`
			Type    yamlAtom `json:"type"`
			Default any      `json:"default"`
		} `json:"fields"`
	} `json:"map"`
}

type yamlAtom struct {
	ElementRelationship string `json:"elementRelationship"`
	List                *struct {
		ElementRelationship string   `json:"elementRelationship"`
		Keys                []string `json:"keys"`
	} `json:"list"`
	Map *struct {
		ElementRelationship string `json:"elementRelationship"`
	} `json:"map"`
}

// readMarkers takes the schema text out of client-go's package internal, which cannot be imported.
func readMarkers() markers {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	if err != nil {
		log.Fatal("go list: ", err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "applyconfigurations/internal/internal.go"))
	if err != nil {
		log.Fatal(err)
	}
	_, text, found := strings.Cut(string(source), "typed.YAMLObject(`")
	text, _, closed := strings.Cut(text, "`)")
	if !found || !closed {
		log.Fatal("internal.go of client-go holds no schema text any more")
	}
	var document struct {
		Types []yamlType `json:"types"`
	}
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		log.Fatal(err)
	}
	result := markers{}
	for _, typ := range document.Types {
		if typ.Map == nil {
			continue
		}
		entry := applyType{atomic: typ.Map.ElementRelationship == "atomic", fields: map[string]marker{}}
		for _, field := range typ.Map.Fields {
			entry.fields[field.Name] = newMarker(field.Type, field.Default)
		}
		result[typ.Name] = entry
	}
	return result
}

func newMarker(atom yamlAtom, defaultValue any) marker {
	result := marker{mapType: atom.ElementRelationship}
	if atom.List != nil {
		result.keys = atom.List.Keys
		switch {
		case atom.List.ElementRelationship != "associative":
			result.listType = "atomic"
		case len(atom.List.Keys) > 0:
			result.listType = "map"
		default:
			result.listType = "set"
		}
	}
	if atom.Map != nil && atom.Map.ElementRelationship == "atomic" {
		result.mapType = "atomic"
	}
	switch defaultValue.(type) {
	case string, bool, float64:
		result.defaultValue = defaultValue
	}
	return result
}

// typeName turns k8s.io/api/core/v1 and Pod into io.k8s.api.core.v1.Pod, as the schema calls it.
func typeName(typ reflect.Type) string {
	path := strings.Replace(typ.PkgPath(), "k8s.io/", "io.k8s.", 1)
	return strings.ReplaceAll(path, "/", ".") + "." + typ.Name()
}

func (m markers) known(typ reflect.Type) bool { _, ok := m[typeName(typ)]; return ok }

func (m markers) atomic(typ reflect.Type) bool { return m[typeName(typ)].atomic }

func (m markers) fieldsOf(typ reflect.Type) map[string]marker { return m[typeName(typ)].fields }

// adopt gives an inlined struct, which the schema does not name, the markers of the struct around it.
func (m markers) adopt(typ reflect.Type, fields map[string]marker) {
	m[typeName(typ)] = applyType{fields: fields}
}

func (m marker) addTo(extras map[string]any, isList bool) {
	if isList && m.listType != "" {
		extras["listType"] = m.listType
	}
	if len(m.keys) > 0 {
		extras["listKeys"] = m.keys
	}
	if m.mapType == "atomic" {
		extras["mapType"] = "atomic"
	}
	if m.defaultValue != nil {
		extras["default"] = m.defaultValue
	}
}
