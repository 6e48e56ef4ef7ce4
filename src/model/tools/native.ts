import type { Ask, OfferedTool } from "../ask.ts";
import { asObject } from "../json.ts";

/** How one client's tool is called for a step. */
export interface Native<S> {
  readonly tool: string;
  /** All spellings of its arguments that its versions had: those that it does not know are left out. */
  input(step: S, scene: Scene): Input;
}

export type Input = Readonly<Record<string, unknown>> | string;

/** What a tool's arguments may need to know of the conversation. */
export interface Scene {
  readonly ask: Ask;
  /** As the client's tools want it. */
  path(path: string): string;
  /** Texts that the conversation holds of files: what the script wrote, and what tools gave back. */
  readonly contents: readonly string[];
}

/** A call before it has its id. */
export interface Calling {
  readonly name: string;
  readonly namespace?: string;
  readonly input: Input;
  readonly search?: boolean;
}

/** Calls the first of the natives that the request offers. */
export function callNative<S>(natives: readonly Native<S>[], step: S, scene: Scene): Calling | undefined {
  for (const native of natives) {
    const tool = scene.ask.tools.find(({ name }) => name === native.tool);
    if (tool !== undefined) return toCalling(tool, native.input(step, scene));
  }
  return undefined;
}

export function toCalling(tool: OfferedTool, input: Input): Calling {
  const { name, namespace, within } = tool;
  if (within !== undefined) return { ...within, input: toCode(name, input) };
  const named = namespace === undefined ? { name } : { name, namespace };
  if (typeof input === "string")
    return { ...named, input: tool.freeform ? input : { [textKeyOf(tool.schema)]: input } };
  return { ...named, input: asObject(keepKnown(input, tool.schema)) };
}

/** Code for the tool that runs it, where only code can call another tool. */
export function toCode(name: string, input: Input): string {
  const member = name.startsWith("[") ? name : `.${name}`;
  const call = `const result = await tools${member}(${JSON.stringify(input)});`;
  return `${call}\ntext(typeof result === "string" ? result : (result?.output ?? result));`;
}

/** What a tool with one text calls it. */
function textKeyOf(schema: unknown): string {
  const { required, properties } = asObject(schema);
  const [only] = Array.isArray(required) ? required : Object.keys(asObject(properties));
  return typeof only === "string" ? only : "input";
}

/** Without what the schema does not name, at any depth. */
function keepKnown(value: unknown, schema: unknown): unknown {
  const { properties, items } = asObject(schema);
  if (Array.isArray(value))
    return items === undefined ? value : value.map((entry) => keepKnown(entry, items));
  if (properties === undefined || typeof value !== "object" || value === null) return value;
  const known = asObject(properties);
  const kept = Object.entries(value).filter(([key]) => Object.hasOwn(known, key));
  return Object.fromEntries(kept.map(([key, entry]) => [key, keepKnown(entry, known[key])]));
}
