import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { type ComponentChildren, h } from "preact";

const LANGUAGES = { bash, css, go, java, javascript, json, python, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

interface Node {
  readonly scope?: string;
  readonly children: readonly (Node | string)[];
}

/** Coloured code as elements; undefined for a language that is not known. */
export function paint(text: string, language: string): ComponentChildren | undefined {
  const name = language.trim().split(/\s/, 1)[0] ?? "";
  if (!hljs.getLanguage(name)) return undefined;
  const result = hljs.highlight(text, { language: name, ignoreIllegals: true });
  // The tree is a private part of the pinned version; a test looks at it.
  const { rootNode } = (result as unknown as { _emitter: { rootNode: Node } })._emitter;
  return rootNode.children.map(toElement);
}

function toElement(node: Node | string): ComponentChildren {
  if (typeof node === "string") return node;
  const name = node.scope === undefined ? "" : `hl-${node.scope.split(".")[0]?.replaceAll("_", "-")}`;
  return h("span", { class: name }, node.children.map(toElement));
}
