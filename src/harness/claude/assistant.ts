import { own } from "../transcript.ts";
import { type Fields, parentOf, toFields, toList, toText } from "./fields.ts";
import { keepInput } from "./inputs.ts";
import type { Reader, Reading } from "./reading.ts";
import type { ClaudeState, Stream } from "./state.ts";

/** A block or more of a message, whole; mostly what its stream has said already. */
export const readAssistant: Reader = (state, line, reading) => {
  const failure = failureOf(line);
  // The CLI puts its own words about a failure into the agent's mouth; the result tells it as what it is.
  const parent = parentOf(line);
  if (failure !== undefined) return parent === undefined ? { ...state, failure } : state;
  const message = toFields(line["message"]);
  const stream = own(state.streams, parent ?? "");
  const heard = stream?.message === toText(message["id"]) ? stream : undefined;
  const id = toText(line["uuid"]) || toText(message["id"]);
  const isCut = line["aborted"] === true;
  return toList(message["content"]).reduce<ClaudeState>(
    (next, block, index) =>
      readBlock(next, { block, heard, parent, isCut, native: `${id}:${index}` }, reading),
    state,
  );
};

interface Spoken {
  readonly block: Fields;
  /** The stream that has said it before. */
  readonly heard: Stream | undefined;
  readonly parent: string | undefined;
  readonly isCut: boolean;
  /** Its id where no stream has named it. */
  readonly native: string;
}

function readBlock(state: ClaudeState, spoken: Spoken, { scribe }: Reading): ClaudeState {
  const { block, parent } = spoken;
  switch (block["type"]) {
    case "text":
      readText(spoken, "text", toText(block["text"]), scribe);
      return parent === undefined ? { ...state, hasSpoken: true } : state;
    case "thinking":
      readText(spoken, "reasoning", toText(block["thinking"]), scribe);
      return state;
    case "tool_use":
    case "server_tool_use":
    case "mcp_tool_use": {
      const [id, name, input] = [toText(block["id"]), toText(block["name"]), block["input"] ?? {}];
      return scribe.call(id, { name, input, parent }) ? keepInput(state, { id, name, input }) : state;
    }
    default:
      return state;
  }
}

function readText(
  { heard, parent, isCut, native }: Spoken,
  kind: "text" | "reasoning",
  text: string,
  scribe: Reading["scribe"],
): void {
  if (!heard) {
    if (text !== "") scribe.sayWhole(native, text, { kind, parent });
    return;
  }
  // One line per block, in order: the first of its kind that is open is the one that is meant.
  for (const block of Object.values(heard.blocks)) {
    if (block.kind === kind && scribe.endText(block.native, text, { failed: isCut })) return;
  }
}

function failureOf(line: Fields): string | undefined {
  if (typeof line["error"] === "string") return line["error"];
  return line["is_api_error_message"] === true || line["isApiErrorMessage"] === true ? "unknown" : undefined;
}
