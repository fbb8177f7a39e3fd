export type ToolFormat = "hermes" | "llama" | "mistral" | "mistral_args" | "gemma";
export type ToolCall = {
    id: string;
    type: "function";
    function: {
        name: string;
        arguments: string;
    };
};
export type ToolCallDelta = {
    index: number;
    id?: string;
    type?: "function";
    function: {
        name?: string;
        arguments: string;
    };
};
export type Tool = {
    type: string;
    function: {
        name: string;
        description?: string;
        parameters?: object;
        strict?: boolean | null;
    };
};
export type ToolChoice = "none" | "auto" | "required" | {
    type: "function";
    function: {
        name: string;
    };
};
export type Call = {
    name?: string;
    /**
     * JSON, or its beginning
     */
    arguments: string;
    /**
     * where the text goes on behind it; -1 where the call does
     */
    end: number;
};
/**
 * An answer, apart: its content, and the calls of the named tools. What is no such call is content. With `isWhole` false the answer
 * goes on: then both are beginnings of what they will be.
 * @param {string} text special tokens included
 * @param {ToolFormat} format
 * @param {readonly string[]} names
 * @param {boolean} isWhole
 */
export declare function readAnswer(text: string, format: ToolFormat, names: readonly string[], isWhole: boolean): {
    content: string;
    calls: (Call & {
        name: string;
    })[];
};
/** Reads an answer as it grows, and gives what is new of it. */
export declare class AnswerReader {
    #private;
    format: ToolFormat;
    names: readonly string[];
    most: number;
    /** @type {ToolCall[]} */
    calls: ToolCall[];
    /** @param {ToolFormat} format @param {readonly string[]} names of the tools @param {number} [most] calls */
    constructor(format: ToolFormat, names: readonly string[], most?: number);
    /**
     * @param {string} piece @param {boolean} [isWhole] whether that was all
     * @returns {{ content?: string, tool_calls?: ToolCallDelta[] }[]}
     */
    read(piece: string, isWhole?: boolean): {
        content?: string;
        tool_calls?: ToolCallDelta[];
    }[];
}
/**
 * What a request asks for, of its tools: how answers are read, and what they must be; null where no tool may be called.
 * @param {{ tools?: any, tool_choice?: any, parallel_tool_calls?: any }} body
 * @param {ToolFormat | null} format
 */
export declare function calling({ tools, tool_choice: choice, parallel_tool_calls: isParallel }: {
    tools?: any;
    tool_choice?: any;
    parallel_tool_calls?: any;
}, format: ToolFormat | null): {
    format: ToolFormat;
    names: any[];
    most: number;
    response_format?: undefined;
} | {
    format: ToolFormat;
    names: any[];
    most: number;
    response_format: {
        type: "grammar";
        grammar: string;
    };
} | null;
