import { createParser, type EventSourceMessage } from "eventsource-parser";

/** A request with one user text for each wire, and a reader of its answer. */
export interface TestWire {
  readonly id: string;
  /** `tools` by name; history entries are pairs of a call and its result. */
  request(ask: TestAsk): { path: string; body: Record<string, unknown> };
  readWhole(body: Json): Said;
  readStream(events: readonly EventSourceMessage[]): Said;
}

export interface TestAsk {
  readonly texts: readonly string[];
  readonly tools?: readonly TestTool[];
  readonly stream: boolean;
  /** Earlier calls of the model behind the last text, each with its result. */
  readonly rounds?: readonly (readonly { id: string; name: string; input: unknown; result: string }[])[];
}

export interface TestTool {
  readonly name: string;
  readonly properties: readonly string[];
}

export interface Said {
  readonly text: string;
  readonly thoughts: string;
  readonly calls: { id: string; name: string; input: Json }[];
  readonly stop: unknown;
  readonly usage: Json;
}

// oxlint-disable-next-line typescript/no-explicit-any -- answers of foreign shapes, read as their clients read them
export type Json = any;

const schemaOf = ({ properties }: TestTool) => ({
  type: "object",
  properties: Object.fromEntries(properties.map((name) => [name, {}])),
});

export const WIRES: readonly TestWire[] = [
  {
    id: "anthropic",
    request: ({ texts, tools = [], stream, rounds = [] }) => ({
      path: "/v1/messages",
      body: {
        model: "claude-test",
        max_tokens: 100,
        stream,
        thinking: { type: "enabled", budget_tokens: 1024 },
        tools: tools.map((tool) => ({ name: tool.name, input_schema: schemaOf(tool) })),
        messages: [
          ...texts.map((content) => ({ role: "user", content })),
          ...rounds.flatMap((calls) => [
            {
              role: "assistant",
              content: calls.map(({ id, name, input }) => ({ type: "tool_use", id, name, input })),
            },
            {
              role: "user",
              content: calls.map(({ id, result }) => ({
                type: "tool_result",
                tool_use_id: id,
                content: result,
              })),
            },
          ]),
        ],
      },
    }),
    readWhole: ({ content, stop_reason: stop, usage }) => ({
      text: content.map((block: Json) => block.text ?? "").join(""),
      thoughts: content.map((block: Json) => block.thinking ?? "").join(""),
      calls: content.filter((block: Json) => block.type === "tool_use"),
      stop,
      usage,
    }),
    readStream: (events) => {
      const blocks: Json[] = [];
      let end: Json = {};
      for (const { event, data } of events) {
        const value = JSON.parse(data) as Json;
        if (event !== value.type) throw new Error(`event ${event} is of type ${value.type}`);
        if (value.type === "content_block_start") blocks[value.index] = { ...value.content_block, json: "" };
        const block = blocks[value.index];
        if (value.delta?.type === "text_delta") block.text += value.delta.text;
        if (value.delta?.type === "thinking_delta") block.thinking += value.delta.thinking;
        if (value.delta?.type === "input_json_delta") block.json += value.delta.partial_json;
        if (value.type === "content_block_stop" && block.type === "tool_use")
          block.input = JSON.parse(block.json);
        if (value.type === "message_delta") end = value;
      }
      return {
        text: blocks.map((block) => block.text ?? "").join(""),
        thoughts: blocks.map((block) => block.thinking ?? "").join(""),
        calls: blocks.filter((block) => block.type === "tool_use"),
        stop: end.delta?.stop_reason,
        usage: end.usage,
      };
    },
  },
  {
    id: "responses",
    request: ({ texts, tools = [], stream, rounds = [] }) => ({
      path: "/v1/responses",
      body: {
        model: "gpt-test",
        stream,
        tools: tools.map((tool) => ({ type: "function", name: tool.name, parameters: schemaOf(tool) })),
        input: [
          ...texts.map((text) => ({
            type: "message",
            role: "user",
            content: [{ type: "input_text", text }],
          })),
          ...rounds.flatMap((calls) =>
            calls.flatMap(({ id, name, input, result }) => [
              { type: "function_call", call_id: id, name, arguments: JSON.stringify(input) },
              { type: "function_call_output", call_id: id, output: result },
            ]),
          ),
        ],
      },
    }),
    readWhole: readResponse,
    readStream: (events) => {
      const numbers = events.map(({ data }) => (JSON.parse(data) as Json).sequence_number as number);
      if (numbers.some((number, index) => number !== index)) throw new Error(`numbers ${numbers.join()}`);
      let deltas = "";
      let thoughts = "";
      let response: Json;
      for (const { event, data } of events) {
        const value = JSON.parse(data) as Json;
        if (event === "response.output_text.delta") deltas += value.delta;
        if (event === "response.reasoning_summary_text.delta") thoughts += value.delta;
        if (event === "response.completed") response = value.response;
      }
      const said = readResponse(response);
      if (said.text !== deltas || said.thoughts !== thoughts) throw new Error("deltas and end differ");
      return said;
    },
  },
  {
    id: "chat",
    request: ({ texts, tools = [], stream, rounds = [] }) => ({
      path: "/v1/chat/completions",
      body: {
        model: "chat-test",
        stream,
        stream_options: { include_usage: true },
        tools: tools.map((tool) => ({
          type: "function",
          function: { name: tool.name, parameters: schemaOf(tool) },
        })),
        messages: [
          ...texts.map((content) => ({ role: "user", content })),
          ...rounds.flatMap((calls) => [
            {
              role: "assistant",
              content: "",
              tool_calls: calls.map(({ id, name, input }) => ({
                id,
                type: "function",
                function: { name, arguments: JSON.stringify(input) },
              })),
            },
            ...calls.map(({ id, result }) => ({ role: "tool", tool_call_id: id, content: result })),
          ]),
        ],
      },
    }),
    readWhole: ({ choices: [choice], usage }) => ({
      text: choice.message.content,
      thoughts: choice.message.reasoning_content ?? "",
      calls: (choice.message.tool_calls ?? []).map(toChatCall),
      stop: choice.finish_reason,
      usage,
    }),
    readStream: (events) => {
      if (events.at(-1)?.data !== "[DONE]") throw new Error("the stream has no end");
      const said = { text: "", thoughts: "", stop: undefined as unknown, usage: {} as Json };
      const calls: Json[] = [];
      for (const { data } of events.slice(0, -1)) {
        const { choices, usage } = JSON.parse(data) as Json;
        if (usage !== undefined) said.usage = usage;
        const [choice] = choices;
        if (choice === undefined) continue;
        said.text += choice.delta.content ?? "";
        said.thoughts += choice.delta.reasoning_content ?? "";
        said.stop = choice.finish_reason ?? said.stop;
        for (const { index, ...call } of choice.delta.tool_calls ?? []) {
          if (call.id !== undefined) calls[index] = call;
          else calls[index].function.arguments += call.function.arguments;
        }
      }
      return { ...said, calls: calls.map(toChatCall) };
    },
  },
  {
    id: "gemini",
    request: ({ texts, tools = [], stream, rounds = [] }) => ({
      path: `/v1beta/models/gemini-test:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
      body: {
        generationConfig: { thinkingConfig: { includeThoughts: true } },
        tools: [
          {
            functionDeclarations: tools.map((tool) => ({
              name: tool.name,
              parametersJsonSchema: schemaOf(tool),
            })),
          },
        ],
        contents: [
          ...texts.map((text) => ({ role: "user", parts: [{ text }] })),
          ...rounds.flatMap((calls) => [
            {
              role: "model",
              parts: calls.map(({ id, name, input }) => ({ functionCall: { id, name, args: input } })),
            },
            {
              role: "user",
              parts: calls.map(({ id, name, result }) => ({
                functionResponse: { id, name, response: { output: result } },
              })),
            },
          ]),
        ],
      },
    }),
    readWhole: (body) => readGemini([body]),
    readStream: (events) => readGemini(events.map(({ data }) => JSON.parse(data) as Json)),
  },
];

function readResponse({ output, status, usage }: Json): Said {
  const of = (type: string): Json[] => output.filter((item: Json) => item.type === type);
  return {
    text: of("message")
      .map((item) => item.content[0].text)
      .join(""),
    thoughts: of("reasoning")
      .map((item) => item.summary[0].text)
      .join(""),
    calls: of("function_call").map((item) => ({
      id: item.call_id,
      name: item.name,
      input: JSON.parse(item.arguments),
    })),
    stop: status,
    usage,
  };
}

function toChatCall({ id, function: called }: Json) {
  return { id, name: called.name, input: JSON.parse(called.arguments) };
}

function readGemini(chunks: readonly Json[]): Said {
  const candidates = chunks.map((chunk) => chunk.candidates[0]);
  const parts = candidates.flatMap((candidate) => candidate.content.parts) as Json[];
  return {
    text: parts.map((part) => (part.thought === true ? "" : (part.text ?? ""))).join(""),
    thoughts: parts.map((part) => (part.thought === true ? part.text : "")).join(""),
    calls: parts
      .filter((part) => part.functionCall)
      .map(({ functionCall: { id, name, args } }) => ({ id, name, input: args })),
    stop: candidates.at(-1).finishReason,
    usage: chunks.at(-1).usageMetadata,
  };
}

export async function post(url: string, body: unknown): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** Asks, and reads the answer to its end. */
export async function say(url: string, wire: TestWire, ask: TestAsk): Promise<Said> {
  const { path, body } = wire.request(ask);
  const response = await post(url + path, body);
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return ask.stream
    ? wire.readStream(toEvents(await response.text()))
    : wire.readWhole(await response.json());
}

export function toEvents(text: string): EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  parser.feed(text);
  return events;
}
