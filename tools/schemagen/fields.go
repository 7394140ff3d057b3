package main

import (
	"log"
	"reflect"
	"strconv"
	"strings"
)

// special are types with a JSON or wire form of their own.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/api/resource.Quantity":   "quantity",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":   "duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":   "fieldsv1",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":    "raw",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString": "intorstring",
	"k8s.io/api/authentication/v1.AttestationValue":   "strings",
	"k8s.io/api/authentication/v1.ExtraValue":         "strings",
	"k8s.io/api/authorization/v1.ExtraValue":          "strings",
}

// message records a struct type and all that it refers to; it returns its name.
func (g *generator) message(typ reflect.Type) string {
	name := messageName(typ)
	target := g.file(strings.Split(name, "/")[0])
	if target.Messages[name] == nil {
		record := &message{Atomic: g.markers.atomic(typ)}
		target.Messages[name] = record
		record.Fields = g.fields(typ, g.markers.fieldsOf(typ))
	}
	return name
}

// fields describes every field as [name, number, type, flags, extras?]. Flags: p pointer, e omitempty, z omitzero, i inlined
// struct (no name of its own in JSON, a message on the wire). Number 0 means that the wire form does not hold it.
func (g *generator) fields(typ reflect.Type, found map[string]marker) [][]any {
	result := [][]any{}
	for i := range typ.NumField() {
		field := typ.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if tag[0] == "-" || !field.IsExported() {
			continue
		}
		number := wireNumber(field)
		if field.Anonymous && tag[0] == "" {
			if field.Type.Name() == "TypeMeta" {
				result = append(result, []any{"kind", 0, "string", "e"}, []any{"apiVersion", 0, "string", "e"})
				continue
			}
			if !g.markers.known(field.Type) {
				g.markers.adopt(field.Type, found)
			}
			result = append(result, []any{field.Name, number, g.message(field.Type), "i"})
			continue
		}
		flags := ""
		target := field.Type
		if target.Kind() == reflect.Pointer {
			flags, target = "p", target.Elem()
		}
		for _, option := range tag[1:] {
			switch option {
			case "omitempty":
				flags += "e"
			case "omitzero":
				flags += "z"
			}
		}
		text, goType := g.typeOf(target)
		extras := map[string]any{}
		if goType != "" {
			extras["go"] = goType
		}
		if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
			extras["patchStrategy"] = strategy
		}
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			extras["patchMergeKey"] = key
		}
		found[tag[0]].addTo(extras, target.Kind() == reflect.Slice)
		entry := []any{tag[0], number, text, flags}
		if len(extras) > 0 {
			entry = append(entry, extras)
		}
		result = append(result, entry)
	}
	return result
}

// typeOf names a type: a scalar, a special, a message, or one of these behind "[]" or "map:". goType is what Go's decoder
// calls it where that cannot be derived.
func (g *generator) typeOf(typ reflect.Type) (text, goType string) {
	if name, ok := special[typ.PkgPath()+"."+typ.Name()]; ok {
		return name, ""
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return g.typeOf(typ.Elem())
	case reflect.Struct:
		return g.message(typ), ""
	case reflect.Map:
		value, _ := g.typeOf(typ.Elem())
		return "map:" + value, plain(typ)
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return "bytes", ""
		}
		element, name := g.typeOf(typ.Elem())
		if typ.Name() == "" && name == "" {
			return "[]" + element, ""
		}
		return "[]" + element, plain(typ)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return typ.Kind().String(), plain(typ)
	}
	log.Fatalf("no form for type %s", typ)
	return "", ""
}

// plain gives the Go name of a type that says more than its kind, else nothing.
func plain(typ reflect.Type) string {
	switch name := typ.String(); name {
	case "string", "bool", "int32", "int64", "[]string", "map[string]string":
		return ""
	default:
		return name
	}
}

func wireNumber(field reflect.StructField) int {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil {
		log.Fatalf("protobuf tag of %s: %v", field.Name, err)
	}
	return number
}
