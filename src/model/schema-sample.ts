import { asObject, asText } from "./json.ts";

/** A small value that fits a JSON schema. */
export function toSample(schema: unknown, text = "scripted"): unknown {
  const { enum: choices, const: fixed, type, properties, anyOf, oneOf } = asObject(schema);
  if (fixed !== undefined) return fixed;
  // Who speaks next, asked after each turn: anybody but the user would make the model talk on for ever.
  if (Array.isArray(choices)) return choices.includes("user") ? "user" : (choices[0] as unknown);
  for (const variants of [anyOf, oneOf]) {
    if (Array.isArray(variants) && variants.length > 0) return toSample(variants[0], text);
  }
  const named = asText(Array.isArray(type) ? type[0] : type).toLowerCase();
  if (named === "object" || properties !== undefined) {
    const entries = Object.entries(asObject(properties)).map(([key, value]) => [key, toSample(value, text)]);
    return Object.fromEntries(entries);
  }
  if (named === "array") return [];
  if (named === "number" || named === "integer") return 1;
  if (named === "boolean") return false;
  return named === "null" ? null : text;
}
