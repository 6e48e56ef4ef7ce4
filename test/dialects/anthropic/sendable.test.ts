import { describe, expect, it } from "vitest";
import { type Sendable, SendEvents, toAccompanied } from "../../../src/dialects/anthropic/parse.ts";

const text = (words: string) => [{ type: "text", text: words }];
const message = { type: "user.message", content: text("hi") };
const system = { type: "system.message", content: text("be brief") };
const result = { type: "user.tool_result", tool_use_id: "sevt_1", content: text("x") };

const parse = (...events: object[]): Sendable[] => SendEvents.parse({ events }).events;

describe("a batch", () => {
  it("keeps unknown keys for the echo", () => {
    const document = {
      type: "document",
      source: { type: "file", file_id: "file_1", extra: 1 },
      title: "input",
      citations: { enabled: true },
    };
    const event = { type: "user.message", content: [document], flavour: "new" };
    expect(parse(event)).toEqual([event]);
  });

  it("pairs a system message with its event", () => {
    expect(toAccompanied(parse(message, message, system))).toEqual([
      { event: message },
      { event: message, system },
    ]);
    expect(toAccompanied(parse(result, system))).toEqual([{ event: result, system }]);
  });

  it.each([
    ["alone", [system]],
    ["first", [system, message]],
    ["in the middle", [message, system, message]],
    ["twice", [message, system, system]],
    ["behind an interrupt", [{ type: "user.interrupt" }, system]],
    [
      "behind a confirmation",
      [{ type: "user.tool_confirmation", tool_use_id: "sevt_1", result: "allow" }, system],
    ],
  ])("is refused with a system message %s", (_, events) => {
    expect(() => toAccompanied(parse(...events))).toThrow(/system.message/);
  });

  it.each([
    ["nothing", []],
    ["a type that is none", [{ type: "user.foo" }]],
    ["words of the agent's", [{ type: "agent.message", content: text("x") }]],
    ["an outcome", [{ type: "user.define_outcome", description: "x" }]],
    ["a search result in a message", [{ ...message, content: [{ type: "search_result" }] }]],
    [
      "a reason to deny what is allowed",
      [{ type: "user.tool_confirmation", tool_use_id: "x", result: "allow", deny_message: "no" }],
    ],
    ["an image for the system", [{ ...system, content: [{ type: "image" }] }]],
    [
      "bytes that are no base64",
      [
        {
          ...message,
          content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "%" } }],
        },
      ],
    ],
  ])("is none with %s", (_, events) => {
    expect(SendEvents.safeParse({ events }).success).toBe(false);
  });
});
