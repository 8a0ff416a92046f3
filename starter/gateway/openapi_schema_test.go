package gateway

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"headgate/contract"
)

// object is a JSON object of the document.
type object = map[string]any

// schemas makes JSON schemas of Go types, as encoding/json writes them. Named
// structs become components; no field is allowed that the type does not have.
type schemas struct{ components object }

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

// words are the values of types that have few; examples of text say the form.
var words = map[string]object{}

func (s *schemas) of(t reflect.Type) object {
	if extra, ok := words[t.Name()]; ok && t.Name() != "" {
		return extra
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{"description": "any JSON value"}
	case t.Implements(textMarshaler) || reflect.PointerTo(t).Implements(textMarshaler):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		return s.named(t)
	}
	panic("no schema for " + t.String())
}

// named puts a struct into the components, once.
func (s *schemas) named(t reflect.Type) object {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, ok := s.components[name]; !ok {
		schema := object{"type": "object", "additionalProperties": false}
		s.components[name] = schema // before its fields, which may hold it again
		properties, required := object{}, []string{}
		s.fields(t, properties, &required)
		schema["properties"] = properties
		if len(required) > 0 {
			schema["required"] = required
		}
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s *schemas) fields(t reflect.Type, properties object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag[0] == "":
			s.fields(f.Type, properties, required)
			continue
		case !f.IsExported() || tag[0] == "-":
			continue
		}
		schema := s.of(f.Type)
		if f.Type == reflect.TypeFor[contract.Phase]() && t == reflect.TypeFor[contract.EvidenceReply]() {
			schema = object{"type": "string", "description": "a phase; empty where the callback says nothing of an effect"}
		}
		if strings.Contains(f.Tag.Get("json"), ",omit") {
			properties[tag[0]] = schema
			continue
		}
		if k := f.Type.Kind(); k == reflect.Pointer || k == reflect.Slice && f.Type != reflect.TypeFor[json.RawMessage]() {
			schema = object{"anyOf": []object{schema, {"type": "null"}}} // as encoding/json writes nil
		}
		properties[tag[0]] = schema
		*required = append(*required, tag[0])
	}
}
