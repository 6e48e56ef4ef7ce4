import { chat } from "@tanstack/ai";
import { sluiceText } from "../../../src/tanstack/index.ts";

const {
  SLUICE_TEST_URL: baseUrl = "",
  SLUICE_TEST_PROMPT: content = "",
  SLUICE_TEST_FOLDER: directory = "",
} = process.env;

export const stream = chat({
  adapter: sluiceText({ baseUrl, agent: "scripted" }),
  messages: [{ role: "user", content }],
  modelOptions: { session: { directory } },
});
