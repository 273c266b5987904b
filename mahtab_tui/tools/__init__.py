"""Functions that a model can call: the built-in ones, and those of packages.

A tool is a function and the schema of its arguments. Everything else (its description for models,
the function in the namespace) is made from these two::

    class CountLines(BaseModel):
        path: str = Field(description="A file of the project")

    def count_lines(workplace: Workplace, arguments: CountLines) -> str:
        '''Return how many lines a file of the project has.'''
        return str(len(workplace.code.read_file(arguments.path).splitlines()))

    tool = Tool(count_lines, CountLines)

A package provides a tool with an entry point of the group ``mahtab_tui.tools`` that names ``tool``.
"""

from mahtab_tui.tools.tool import Tool, ToolError, Workplace

__all__ = ["Tool", "ToolError", "Workplace"]
